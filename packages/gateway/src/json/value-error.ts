export type Read = (value: unknown) => unknown;

/** An invalid value. Its path is completed level by level while the error passes through the readers. */
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

/** Adds the next outer level to the path of a ValueError. Returns the error. */
export function prependPath(key: string | number, error: unknown): unknown {
  if (error instanceof ValueError) {
    error.path.push(key);
  }
  return error;
}
