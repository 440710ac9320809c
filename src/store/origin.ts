/** Who caused a change, and by which request. */
export type Origin = {
  /** The user; undefined if the request was not authenticated. */
  readonly by: string | undefined;
  /** The IP address of the client. */
  readonly address: string | undefined;
  /** "rest", "connect", "grpc" or "grpc-web". */
  readonly protocol: string | undefined;
  readonly requestId: string | undefined;
};
