// What commands print and ask for.
export { printVerification } from "../administration/audit.ts";
export type { Output } from "./output.ts";
export { createProgress } from "./progress.ts";
export { askSecret, readSecretLine } from "./prompts.ts";
