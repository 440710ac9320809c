/** A process can end, or become another user's, at any time, and descriptors can be used up: its connections are not recognised. */
export function ignoreSystemError(error: unknown): void {
  if (!(error instanceof Error && "syscall" in error)) {
    throw error;
  }
}
