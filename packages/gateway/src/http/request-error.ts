/**
 * A request that is rejected before the implementation is called: an unknown path, an unsupported media type, an
 * invalid body.
 */
export class RequestError extends Error {
  readonly status: number;
  /** Machine-readable; undefined if it is set by the `invalid` option of the method or field. */
  readonly reason: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** True if the message contains names or values that the client sent. */
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

export class BodyTooLargeError extends RequestError {
  constructor(maxBytes: number) {
    super(413, "payload_too_large", `the body is larger than ${maxBytes} bytes`);
  }
}
