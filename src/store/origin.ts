/** Who caused a change, and by which request. */
export type Origin = {
  /** The user; undefined if the request was not authenticated. */
  readonly by: string | undefined;
  /** The access token of the request; undefined if it had none. */
  readonly token?:
    | { readonly id: string; /** Undefined if it was issued for a login. */ readonly name: string | undefined }
    | undefined;
  /** The IP address of the client. */
  readonly address: string | undefined;
  /** "rest", "connect", "grpc" or "grpc-web". */
  readonly protocol: string | undefined;
  readonly requestId: string | undefined;
};
