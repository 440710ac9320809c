import type { ClientHttp2Session } from "node:http2";
import { Duplex } from "node:stream";
import { FlowgateError } from "@flowgate/flows/errors";

/** Connections that are open at once. */
const maxOpen = 16;

/** The size limits of what the process may send for one connection, and while there is none. */
const connectionBytes = 20 * 1024 * 1024;
const idleBytes = 64 * 1024;

/** Node's types lack some of these for clients. */
const sessionLimits: object = {
  maxSessionMemory: 8,
  maxHeaderListPairs: 16,
  maxReservedRemoteStreams: 0,
  maxOutstandingPings: 1,
  maxSessionInvalidFrames: 10,
};

/**
 * Connections to the app of a runtime process that has the routes of its nodes: streams of an HTTP/2 session over an inherited
 * pipe, on each of which HTTP/1.1 is spoken. Flows can write to the pipe as well. A process that breaks the protocol, or sends more than
 * it is asked for, loses the pipe until its end.
 */
export class AdminChannel {
  readonly #pipe: Duplex;
  readonly #onFirst: () => void;
  readonly #onAbuse: (reason: string) => void;
  #session: ClientHttp2Session | undefined;
  #open = 0;
  #budget = idleBytes;
  #hasFailed = false;

  /** `onFirst` is called before the first connection. */
  constructor(pipe: Duplex, onFirst: () => void, onAbuse: (reason: string) => void) {
    this.#pipe = pipe;
    this.#onFirst = onFirst;
    this.#onAbuse = onAbuse;
    // `close` follows, and the exit of the process is reported by its own event.
    pipe.on("error", () => {});
  }

  /** Opens a connection. Throws `flows_unresponsive` if the pipe is closed, and `limit_exceeded` if there are too many. */
  connect(): Duplex {
    if (this.#open >= maxOpen) {
      throw new FlowgateError("limit_exceeded", `${maxOpen} requests wait for the flows already: try again later`);
    }
    // Its streams close before it reports why.
    if (
      this.#hasFailed ||
      this.#pipe.destroyed ||
      this.#session?.destroyed === true ||
      this.#session?.closed === true
    ) {
      throw new FlowgateError(
        "flows_unresponsive",
        "the runtime process serves no requests any more: restart it, or deploy again with the type full",
      );
    }
    this.#session ??= this.#openSession();
    const stream = this.#session.request({ ":method": "CONNECT", ":authority": "flows" });
    this.#open += 1;
    this.#budget = Math.min(this.#budget + connectionBytes, maxOpen * connectionBytes);
    stream.on("error", () => {});
    stream.once("close", () => {
      this.#open -= 1;
      if (this.#open === 0) {
        this.#budget = idleBytes;
      }
    });
    return stream;
  }

  close(): void {
    this.#session?.destroy();
    this.#pipe.destroy();
  }

  #openSession(): ClientHttp2Session {
    this.#onFirst();
    // Loaded here, since most services do without.
    const session = process
      .getBuiltinModule("node:http2")
      .connect("http://flows", {
        ...sessionLimits,
        createConnection: () => this.#metered(),
        settings: { enablePush: false },
      });
    session.on("error", () => this.#fail("a flow wrote into the channel of requests"));
    session.on("close", () => this.#fail(undefined));
    return session;
  }

  /** The pipe, of which no more is read than what the process may send. */
  #metered(): Duplex {
    const pipe = this.#pipe;
    const metered = new Duplex({
      read: () => void pipe.resume(),
      write: (chunk: Buffer, _encoding, written) => void pipe.write(chunk, written),
      final: (ended) => void pipe.end(ended),
      destroy: (error, destroyed) => {
        pipe.destroy();
        destroyed(error);
      },
    });
    pipe.on("data", (chunk: Buffer) => {
      this.#budget -= chunk.length;
      if (this.#budget < 0) {
        this.#fail("a flow flooded the channel of requests");
      } else if (!metered.push(chunk)) {
        pipe.pause();
      }
    });
    pipe.on("end", () => metered.push(null));
    pipe.on("close", () => metered.destroy());
    return metered;
  }

  /** `reason`: why the process is not trusted any more; undefined: it may have exited. */
  #fail(reason: string | undefined): void {
    if (this.#hasFailed) {
      return;
    }
    this.#hasFailed = true;
    if (reason !== undefined && !this.#pipe.destroyed) {
      this.#onAbuse(reason);
    }
    this.close();
  }
}
