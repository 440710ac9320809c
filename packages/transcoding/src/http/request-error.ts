/**
 * A request that can't be served as it was sent: no such path, a wrong media type, a body that does
 * not fit. Found before the implementation runs.
 */
export class RequestError extends Error {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** For programs; undefined where the method or field says which (`invalid` in its options). */
  readonly reason: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  /** The message repeats names that the client chose. */
  readonly repeatsInput: boolean;

  constructor(
    status: number,
    reason: string | undefined,
    message: string,
    { headers = {}, repeatsInput = false }: { headers?: Record<string, string>; repeatsInput?: boolean } = {},
  ) {
    super(message);
    this.name = "RequestError";
    this.status = status;
    this.reason = reason;
    this.headers = headers;
    this.repeatsInput = repeatsInput;
  }
}
