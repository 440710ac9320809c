/** Reads a JSON value. Throws a ValueError where it does not fit. */
export type Read = (value: unknown) => unknown;

/** A fault on its way up: where a value stands is found out only when it does not fit. */
export class ValueError extends Error {
  readonly reason: string | undefined;
  /** Innermost first. */
  readonly path: (string | number)[];

  constructor(expected: string, reason?: string, path: (string | number)[] = []) {
    super(expected);
    this.reason = reason;
    this.path = path;
  }
}

/** The error, which now knows one more level of where it stands. */
export function prependPath(key: string | number, error: unknown): unknown {
  if (error instanceof ValueError) {
    error.path.push(key);
  }
  return error;
}
