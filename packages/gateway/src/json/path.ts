/** A place in a JSON document: member names and array indices, outermost first. */
export type JsonPath = readonly (string | number)[];

/** gRPC sends messages in headers, which are limited to a few kilobytes. */
const MAX_NAME = 64;

/**
 * Formats a path, such as `flows[3].wires`. A name that is not an identifier is quoted and escaped as in a normalized path (RFC 9535, section
 * 2.7): `flows[3]['a b']`. A name of more than `maxName` characters is shortened.
 */
export function formatPath(path: JsonPath, maxName = MAX_NAME): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") {
      text += `[${step}]`;
    } else if (step.length <= maxName && /^[A-Za-z_$][\w$-]*$/.test(step)) {
      text += text === "" ? step : `.${step}`;
    } else {
      text += `['${escapeName(step.length <= maxName ? step : `${step.slice(0, maxName)}…`)}']`;
    }
  }
  return text;
}

/** JSON escapes the same characters, except for the quotes. */
function escapeName(name: string): string {
  return JSON.stringify(name)
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("'", String.raw`\'`);
}
