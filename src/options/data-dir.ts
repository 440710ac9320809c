/** Of `dataDir`. Here, since the command line needs it before it loads the schema of all options. */
export const defaultDataDir = "./data";
