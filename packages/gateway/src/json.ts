/** The JSON of messages without the gateway, for programs that have to start fast. */
export { parseJson } from "./json/parse.ts";
export { findJsonValue } from "./json/find-value.ts";
export { createJsonReaders, type JsonReader } from "./json/read.ts";
export { scanStructure } from "./json/structural-scan.ts";
export { WideInteger } from "./json/wide-integer.ts";
export { RequestError } from "./http/request-error.ts";
