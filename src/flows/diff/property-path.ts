import { formatPath, type JsonPath } from "@flowgate/gateway/json-path";

/** The JSON path of a value in a node, with all names in full. */
export function formatPropertyPath(path: JsonPath): string {
  return formatPath(path, Infinity);
}
