import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import type { SecureContextOptions } from "node:tls";
import { createAuthority, issueServer } from "../certificates.ts";
import { freePort } from "../free-port.ts";
import { eventually } from "./service.ts";
import type { HttpClient } from "./http-client.ts";

/** The authority of the proxies, and of services with `tls`. */
export const authority = createAuthority();
export const proxyCertificate = issueServer(authority);
/** The certificate of a service with `tls`, with the name that the configurations of deploy/ expect. */
export const serviceCertificate = issueServer(authority, { dnsNames: ["flowgate.internal", "localhost"] });
/** The authority of client certificates. */
export const workloads = createAuthority("Workloads");

export type ProxyOptions = {
  /** The ports of the one or two services behind the proxy. */
  readonly upstreams: readonly number[];
  /** Whether the services have TLS. */
  readonly upstreamTls?: boolean;
  /** Whether the proxy requests client certificates. */
  readonly clientCertificates?: boolean;
  /** A change of the configuration. */
  readonly edit?: (config: string) => string;
};

/** An installed proxy with its configuration of deploy/, where addresses, files and optional parts are changed. */
export type Proxy = AsyncDisposable & {
  readonly name: string;
  /** Clients over HTTP/1.1 and HTTP/2, without TLS (if supported) and with TLS. */
  readonly ports: Ports;
  readonly httpClients: readonly HttpClient[];
  log(): string;
};

export type Ports = { readonly http: number; readonly h2c: number; readonly tls: number };

/** Replaces all occurrences; throws if there is none, since the test would then test something else. */
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
  /** Returns the command line for these ports. */
  readonly prepare: (ports: Ports) => Promise<readonly [program: string, ...args: string[]]>;
  /** The number of ports without TLS: one for both HTTP versions, one for each, or none. */
  readonly plainPorts: 0 | 1 | 2;
  readonly dispose: () => Promise<void>;
};

/** Starts the proxy, on other ports if these are in use, and resolves once it listens. */
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
      httpClients: waysTo(ports).filter(({ tls }) => tls !== undefined || plainPorts > 0),
      log: () => log,
      async [Symbol.asyncDispose]() {
        await stop();
        await dispose();
      },
    };
  }
}

function waysTo({ http, h2c, tls }: Ports): HttpClient[] {
  const secure: SecureContextOptions = { ca: authority.cert };
  return [
    { name: "HTTP/1.1", url: `http://127.0.0.1:${http}`, httpVersion: "1.1" },
    { name: "h2c", url: `http://127.0.0.1:${h2c}`, httpVersion: "2" },
    { name: "HTTP/1.1 over TLS", url: `https://127.0.0.1:${tls}`, httpVersion: "1.1", tls: secure },
    { name: "HTTP/2 over TLS", url: `https://127.0.0.1:${tls}`, httpVersion: "2", tls: secure },
  ];
}

async function knock(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
  } finally {
    socket.destroy();
  }
}
