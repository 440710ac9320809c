/** A call that is made again and again. */
export type Target = {
  readonly protocol: "http1" | "grpc";
  readonly path: string;
  /** Of HTTP/1.1. */
  readonly method?: "GET" | "POST";
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of gRPC with the five bytes before the message. */
  readonly body?: Uint8Array;
  /** The status that a good answer has; of gRPC that is grpc-status. Default: 200, of gRPC 0. */
  readonly status?: number;
  readonly connections: number;
  /** Calls at once on each connection; 1 for HTTP/1.1. */
  readonly callsPerConnection: number;
};

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Uint8Array;
};
