/** Request headers by lower-case name, as in Node's IncomingHttpHeaders. Those that are not lists have a single value. */
export type RequestHeaders = {
  readonly [name: string]: string | string[] | undefined;
  readonly accept?: string | undefined;
  readonly "accept-encoding"?: string | undefined;
  readonly "access-control-request-method"?: string | undefined;
  readonly "content-encoding"?: string | undefined;
  readonly "content-type"?: string | undefined;
  readonly "if-match"?: string | undefined;
  readonly "if-none-match"?: string | undefined;
  readonly origin?: string | undefined;
};
