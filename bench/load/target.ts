/** A call that is repeated as load. */
export type Target = {
  readonly protocol: "http1" | "grpc";
  readonly path: string;
  /** For HTTP/1.1 only. */
  readonly method?: "GET" | "POST";
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For gRPC including the envelope. */
  readonly body?: Uint8Array;
  /** The expected status; grpc-status for gRPC. Defaults to 200, and to 0 for gRPC. */
  readonly status?: number;
  readonly connections: number;
  /** Concurrent calls per connection; 1 for HTTP/1.1. */
  readonly callsPerConnection: number;
};

export type CallResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Uint8Array;
};

/** A connection of the process that makes the calls. */
export interface Connection {
  /** Sends another call. */
  call(): void;
  close(): void;
}

export type ConnectionEvents = {
  onResponse(connection: Connection): void;
  /** There will be no further responses. */
  onFailure(error: Error): void;
};
