/** The default of `dataDir`. In its own file, because the CLI needs it before it loads the options schema. */
export const defaultDataDir = "./data";
