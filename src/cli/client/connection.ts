/** A server, and how to reach it. */
export type Connection = {
  /** As it was given, for messages. */
  readonly server: string;
  readonly baseUrl: string;
  /** Of a Unix socket. */
  readonly socketPath?: string;
  readonly token?: string;
  readonly tls: {
    readonly ca?: string;
    readonly cert?: string;
    readonly key?: string;
    readonly servername?: string;
    readonly rejectUnauthorized?: false;
  };
  readonly timeoutMs?: number;
};
