/** The JSON of messages without the gateway, for programs that have to start fast. */
export { parseJson } from "./json/parse.ts";
export { createJsonReaders, type JsonReader } from "./json/read.ts";
export { scanStructure } from "./json/structural-scan.ts";
export { RequestError } from "./http/request-error.ts";
