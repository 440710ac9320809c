// What commands print and ask for.
export type { Output } from "./output.ts";
export { createProgress } from "./progress.ts";
export { askSecret, readSecretLine } from "./prompts.ts";
export { printVerification } from "./verification.ts";
