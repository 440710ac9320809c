/**
 * A request that can't be served as it was sent: no such path, a wrong media type, a body that does
 * not fit. Found before the implementation runs.
 */
export class Fault extends Error {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** For programs; undefined where the method or field says which (`invalid` in its options). */
  readonly reason: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  /** The message repeats names that the client chose. */
  readonly echoes: boolean;

  constructor(
    status: number,
    reason: string | undefined,
    message: string,
    { headers = {}, echoes = false }: { headers?: Record<string, string>; echoes?: boolean } = {},
  ) {
    super(message);
    this.name = "Fault";
    this.status = status;
    this.reason = reason;
    this.headers = headers;
    this.echoes = echoes;
  }
}

/** Where in a JSON document: field names and array indices, outermost first. */
export type JsonPath = (string | number)[];

/** `flows[3].wires`; a key that is no identifier is quoted: `flows[3]['a b']`. */
export function formatPath(path: Readonly<JsonPath>): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") {
      text += `[${part}]`;
    } else if (/^[A-Za-z_$][\w$-]*$/.test(part)) {
      text += text === "" ? part : `.${part}`;
    } else {
      text += `['${part.replaceAll("'", "\\'")}']`;
    }
  }
  return text;
}

/** A value that does not fit its field; the message begins with where it stands. */
export function misfit(path: Readonly<JsonPath>, expected: string, reason?: string): Fault {
  return new Fault(400, reason, `${path.length === 0 ? "the body" : formatPath(path)}: ${expected}`);
}
