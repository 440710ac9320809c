import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { quantile } from "../bench/statistics.ts";
import { tryDeploy } from "../test/e2e/deploy.ts";
import type { Node } from "../test/e2e/flow-builders.ts";
import type { Reply, Sending } from "../test/e2e/rest.ts";
import type { Service } from "../test/e2e/service.ts";

/** How an operator reaches the service. */
export type Way = {
  readonly name: string;
  send(method: string, path: string, sending?: Sending): Promise<Reply>;
};

type Headers = Readonly<Record<string, string>>;

export function overTcp(service: Service, token: Headers): Way {
  return {
    name: "TCP with a token",
    send: (method, path, sending = {}) =>
      service.send(method, path, { ...sending, headers: { ...token, ...sending.headers } }),
  };
}

/** Undefined if the service has no Unix socket. */
export function overSocket(service: Service, token: Headers): Way | undefined {
  const socketPath = join(service.dataDir, "flowgate.sock");
  return existsSync(socketPath)
    ? {
        name: "the Unix socket",
        send: (method, path, sending = {}) =>
          service.send(method, path, { ...sending, socketPath, headers: { ...token, ...sending.headers } }),
      }
    : undefined;
}

export type Observation = {
  readonly calls: number;
  readonly p99Ms: number;
  /** The distinct failures, with their number. */
  readonly failures: ReadonlyMap<string, number>;
};

/** Asks for health and settings continuously, each on a new connection. */
export function observe(way: Way): { end(): Promise<Observation> } {
  const timesMs: number[] = [];
  const failures = new Map<string, number>();
  const ending = new AbortController();
  const ask = async (path: string): Promise<void> => {
    const beganMs = performance.now();
    const problem = await way.send("GET", path, { signal: AbortSignal.timeout(10_000) }).then(
      ({ status }) => (status === 200 ? undefined : `GET ${path} over ${way.name}: ${status}`),
      (error: NodeJS.ErrnoException) => `GET ${path} over ${way.name}: ${error.code ?? error.name}`,
    );
    timesMs.push(performance.now() - beganMs);
    if (problem !== undefined) {
      failures.set(problem, (failures.get(problem) ?? 0) + 1);
    }
  };
  const loop = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      await ask("/healthz");
      await ask("/settings");
      await delay(10);
    }
  };
  const ended = loop();
  return {
    async end() {
      ending.abort();
      await ended;
      return { calls: timesMs.length, p99Ms: quantile(timesMs, 0.99), failures };
    },
  };
}

export type Correction = { readonly ms: number; readonly problem: string | undefined };

/** Deploys over this way, and measures how long the response takes. */
export async function correct(way: Way, flows: readonly Node[], timeoutMs = 30_000): Promise<Correction> {
  const beganMs = performance.now();
  const sender = {
    send: (method: string, path: string, sending?: Sending) =>
      way.send(method, path, { ...sending, signal: AbortSignal.timeout(timeoutMs) }),
  };
  const problem = await tryDeploy(sender, { flows }).then(
    ({ status, body }) => (status === 200 ? undefined : `${status} ${body}`),
    (error: NodeJS.ErrnoException) => error.code ?? error.name,
  );
  const ms = performance.now() - beganMs;
  return {
    ms,
    problem: problem && `a corrective deployment over ${way.name} failed after ${ms.toFixed(0)} ms: ${problem}`,
  };
}
