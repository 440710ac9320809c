import { extname } from "node:path";

/**
 * The program of the child, beside this module: a .ts file of the sources, or a .js file of the build. A bundle has it in the folder
 * `child` beside the file that contains this module.
 */
export const childProgram = new URL(`child/main${extname(import.meta.url)}`, import.meta.url);
