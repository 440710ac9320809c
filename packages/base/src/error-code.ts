/** True if the system lacks resources now: what has failed may succeed later. */
export function isScarcity(error: unknown): boolean {
  return hasCode(error, "EMFILE", "ENFILE", "ENOMEM", "EAGAIN");
}

/** True if an error has one of these codes, such as those of the operating system. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.some((code) => code === error.code);
}
