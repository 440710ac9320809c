/** A server, and how to reach it. */
export type Connection = {
  /** A URL, or `unix:` and a path: for messages, and as the key of tokens. */
  readonly server: string;
  readonly baseUrl: string;
  /** Of a Unix socket. */
  readonly socketPath?: string;
  readonly token?: string;
  readonly tokenOrigin?: TokenOrigin;
  readonly tls: TlsOptions;
  /** Whether passwords and tokens must not be sent, since they could be read on the network. */
  readonly isInsecure: boolean;
  readonly timeoutMs?: number;
};

/** Where the token comes from: the environment, or `flowgate login`. `withheld`: the environment, for another server. */
type TokenOrigin = "environment" | "login" | "withheld";

export type TlsOptions = {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly servername?: string;
  readonly rejectUnauthorized?: false;
};
