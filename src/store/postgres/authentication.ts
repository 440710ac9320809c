import { Client, type ClientConfig, type Connection } from "pg";

/**
 * The methods by which a server may authenticate a client, by their names in libpq's `require_auth`. `none`: no
 * authentication.
 */
export type AuthMethod = (typeof authMethods)[number];

export const authMethods = ["scram-sha-256", "md5", "password", "none"] as const;

/** The configuration of a connection to a server. */
export type ServerConfig = ClientConfig & {
  /** The methods with which the client lets itself be authenticated. */
  readonly authMethods: readonly AuthMethod[];
};

/** The server asked for authentication in a way that is not accepted, or for none. */
export class RefusedAuthentication extends Error {
  constructor(asked: AuthMethod, accepted: readonly AuthMethod[]) {
    const what =
      asked === "none"
        ? "does not prove that it knows the password"
        : `asks for authentication by ${asked}, where only ${accepted.join(", ")} is accepted`;
    super(
      `the server at the address of the store ${what}, and got no password: another program may listen there; let the database use scram-sha-256, or connect over TLS or a Unix socket, or name the method with require_auth in the store's URL`,
    );
  }
}

/** The methods by the driver's names of the server's requests. */
const requests: ReadonlyMap<string | symbol, AuthMethod> = new Map([
  ["authenticationSASL", "scram-sha-256"],
  ["authenticationMD5Password", "md5"],
  ["authenticationCleartextPassword", "password"],
]);

/**
 * Returns the class of clients that accept these methods only. The driver itself answers any method that a server
 * requests.
 */
export function clientOf(methods: readonly AuthMethod[]): typeof Client {
  return class extends Client {
    constructor(config?: string | ClientConfig) {
      super(config);
      restrictAuthentication(this.connection, methods);
    }
  };
}

/**
 * Ends the connection before the driver sends a password or a query to a server that asks for another method, or that goes on
 * without having proved by SCRAM that it knows the password (RFC 5802, section 3). All messages of a server pass `emit`, also several
 * in one packet, which the driver would process after an error.
 */
function restrictAuthentication(connection: Connection, methods: readonly AuthMethod[]): void {
  const emit = connection.emit.bind(connection) as (event: string | symbol, ...args: unknown[]) => boolean;
  let method: AuthMethod = "none";
  let isServerProved = false;
  let isAuthenticated = false;
  let hasFailed = false;

  function refuse(asked: AuthMethod): boolean {
    hasFailed = true;
    emit("error", new RefusedAuthentication(asked, methods));
    connection.stream.destroy();
    return true;
  }

  connection.emit = (event: string | symbol, ...args: unknown[]): boolean => {
    if (hasFailed) {
      return event === "end" && emit(event, ...args);
    }
    method = requests.get(event) ?? method;
    if (requests.has(event) && !methods.includes(method)) {
      return refuse(method);
    }
    if (event === "error") {
      hasFailed = true;
    }
    if (event === "authenticationOk") {
      if (method === "scram-sha-256" ? !isServerProved : !methods.includes(method)) {
        return refuse("none");
      }
      isAuthenticated = true;
    }
    if (event === "readyForQuery" && !isAuthenticated) {
      return refuse("none");
    }
    const isHandled = emit(event, ...args);
    // The driver has compared the signature of the server.
    if (event === "authenticationSASLFinal") {
      isServerProved = !hasFailed;
    }
    return isHandled;
  };
}
