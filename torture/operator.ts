import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { tryDeploy } from "../test/e2e/deploy.ts";
import type { Node } from "../test/e2e/flow-builders.ts";
import { type Reply, type Sending, send } from "../test/e2e/rest.ts";
import type { Service } from "../test/e2e/service.ts";

/** How an operator reaches the service: cloneable, so that a thread can send too. */
export type Access = {
  readonly name: string;
  readonly url: string;
  /** Of each request. */
  readonly sending: Pick<Sending, "headers" | "socketPath">;
};

export type Way = Access & { send(method: string, path: string, sending?: Sending): Promise<Reply> };

type Headers = Readonly<Record<string, string>>;

export function overTcp({ url }: Service, headers: Headers): Way {
  return createWay({ name: "TCP with a token", url, sending: { headers } });
}

/** Undefined if the service has no Unix socket. */
export function overSocket({ url, dataDir }: Service, headers: Headers): Way | undefined {
  const socketPath = join(dataDir, "flowgate.sock");
  return existsSync(socketPath)
    ? createWay({ name: "the Unix socket", url, sending: { headers, socketPath } })
    : undefined;
}

function createWay(access: Access): Way {
  const { url, sending: own } = access;
  return {
    ...access,
    send: (method, path, sending = {}) =>
      send(url, method, path, { ...sending, ...own, headers: { ...own.headers, ...sending.headers } }),
  };
}

export type Observation = {
  readonly calls: number;
  readonly p99Ms: number;
  /** The distinct failures, with their number. */
  readonly failures: ReadonlyMap<string, number>;
};

/** Between a call of each kind and the next ones. */
export type Pause = { readonly pauseMs: number };

/**
 * Asks for health and settings continuously, each on a new connection, in a thread of its own, so that the event loop of a drill may be
 * busy meanwhile. Resolves when it has begun.
 */
export async function observe(access: Access, pauseMs = 10): Promise<{ end(): Promise<Observation> }> {
  const { name, url, sending } = access;
  const worker = new Worker(new URL("observer-thread.ts", import.meta.url), {
    workerData: { name, url, sending, pauseMs } satisfies Access & Pause,
  });
  await once(worker, "message");
  return {
    async end() {
      worker.postMessage("end");
      const [observation] = (await once(worker, "message")) as [Observation];
      return observation;
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
