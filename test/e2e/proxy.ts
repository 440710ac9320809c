import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { SecureContextOptions } from "node:tls";
import { createAuthority, issueServer } from "../certificates.ts";
import { eventually } from "./service.ts";
import type { Endpoint } from "./endpoint.ts";

/** Who vouches for the proxies, and for services that have `tls`. */
export const authority = createAuthority();
export const proxyCertificate = issueServer(authority);
/** The certificate of a service with `tls` has the name that the configurations of deploy/ ask for. */
export const serviceCertificate = issueServer(authority, { dnsNames: ["flowgate.internal", "localhost"] });
/** Who vouches for clients that show a certificate to a proxy. */
export const workloads = createAuthority("Workloads");

export type ProxyOptions = {
  /** The ports of the services behind it, of one or two. */
  readonly upstreams: readonly number[];
  /** Whether those speak TLS. */
  readonly upstreamTls?: boolean;
  /** Whether it asks for client certificates. */
  readonly clientCertificates?: boolean;
  /** A change that someone makes to the configuration. */
  readonly edit?: (config: string) => string;
};

/** A proxy of the system's, with its configuration of deploy/: addresses, files and what is optional are changed. */
export type Proxy = AsyncDisposable & {
  readonly name: string;
  /** The ports for HTTP/1.1 and HTTP/2 without TLS, if it has them, and for both over TLS. */
  readonly ports: Ports;
  readonly endpoints: readonly Endpoint[];
  log(): string;
};

export type Ports = { readonly http: number; readonly h2c: number; readonly tls: number };

/** Replaces all that stands there; throws where nothing does, for then a test would test something else. */
export function replace(config: string, changes: readonly (readonly [from: string, to: string])[]): string {
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) {
      throw new Error(`the configuration has no ${JSON.stringify(from)}`);
    }
    return text.replaceAll(from, to);
  }, config);
}

export function readDeployed(path: string): Promise<string> {
  return readFile(new URL(`../../deploy/${path}`, import.meta.url), "utf8");
}

type Starting = {
  readonly name: string;
  /** Gives the command line for these ports. */
  readonly prepare: (ports: Ports) => Promise<readonly [program: string, ...args: string[]]>;
  /** How many ports there are without TLS: one for both versions of HTTP, one for each, or none. */
  readonly plainPorts: 0 | 1 | 2;
  readonly dispose: () => Promise<void>;
};

/** Starts it, on other ports where someone was quicker to take these, and resolves once it listens. */
export async function startProxy({ name, prepare, plainPorts, dispose }: Starting): Promise<Proxy> {
  for (let attempt = 1; ; attempt++) {
    const tls = await freePort();
    const http = plainPorts === 0 ? tls : await freePort();
    const ports = { http, h2c: plainPorts === 2 ? await freePort() : http, tls };
    const [program, ...args] = await prepare(ports).catch(async (error: unknown) => {
      await dispose();
      throw error;
    });
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
    const closed = once(child, "close");
    const stop = async (): Promise<void> => {
      child.kill("SIGTERM");
      await closed;
    };
    const ended = closed.then(() => Promise.reject(new Error(`${name} ended after it said:\n${log}`)));
    try {
      const listening = Object.values(ports).map((port) => eventually(() => knock(port)));
      await Promise.race([ended, Promise.all(listening)]);
    } catch (error) {
      await stop();
      if (attempt < 5 && /in use|cannot bind/i.test(log)) {
        continue;
      }
      await dispose();
      throw error;
    }
    ended.catch(() => {});
    return {
      name,
      ports,
      endpoints: endpointsOf(ports).filter(({ tls }) => tls !== undefined || plainPorts > 0),
      log: () => log,
      async [Symbol.asyncDispose]() {
        await stop();
        await dispose();
      },
    };
  }
}

function endpointsOf({ http, h2c, tls }: Ports): Endpoint[] {
  const secure: SecureContextOptions = { ca: authority.cert };
  return [
    { name: "HTTP/1.1", url: `http://127.0.0.1:${http}`, httpVersion: "1.1" },
    { name: "h2c", url: `http://127.0.0.1:${h2c}`, httpVersion: "2" },
    { name: "HTTP/1.1 over TLS", url: `https://127.0.0.1:${tls}`, httpVersion: "1.1", tls: secure },
    { name: "HTTP/2 over TLS", url: `https://127.0.0.1:${tls}`, httpVersion: "2", tls: secure },
  ];
}

const found = new Set<number>();

/** Below those that the system gives out by itself, so that no one takes it by accident. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    // One that was found before is free until its proxy listens.
    if (found.has(port)) {
      continue;
    }
    const server = createServer();
    try {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      server.close();
      await once(server, "close");
      found.add(port);
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") {
        throw error;
      }
    }
  }
}

async function knock(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
  } finally {
    socket.destroy();
  }
}
