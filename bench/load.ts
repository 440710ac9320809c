import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Server } from "./server.ts";

const run = promisify(execFile);
const autocannon = fileURLToPath(import.meta.resolve("autocannon"));

/** A request that is made again and again. */
export type Target = {
  readonly server: Server;
  readonly path: string;
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

export type LoadOptions = { readonly connections: number; readonly seconds: number };

export type Throughput = {
  readonly perSecond: number;
  /** CPU time of the server; undefined where it is not known. */
  readonly cpuMsPerRequest: number | undefined;
  /** Of one core. Well below 1 it was not the server that was slow. */
  readonly cpuShare: number | undefined;
};

type Result = { readonly "2xx": number; readonly non2xx: number; readonly errors: number; readonly duration: number };

/** Loads a server from another process (autocannon's), with as many requests at once as there are connections. */
export async function load(target: Target, { connections, seconds }: LoadOptions): Promise<Throughput> {
  const { server, path, method = "GET", headers = {}, body } = target;
  const args = ["--json", "--connections", `${connections}`, "--duration", `${seconds}`, "--method", method];
  for (const [name, value] of Object.entries(headers)) {
    args.push("--headers", `${name}=${value}`);
  }
  if (body !== undefined) {
    args.push("--body", body);
  }
  const cpuBefore = await server.cpuMs();
  const { stdout } = await run(process.execPath, [autocannon, ...args, `${server.url}${path}`], {
    timeout: (seconds + 30) * 1000,
  });
  const cpuAfter = await server.cpuMs();
  const { "2xx": answered, non2xx, errors, duration } = JSON.parse(stdout) as Result;
  if (non2xx + errors > 0) {
    throw new Error(`${method} ${path}: ${non2xx} answers were no 2xx, ${errors} requests failed`);
  }
  const cpuMs = cpuBefore === undefined || cpuAfter === undefined ? undefined : cpuAfter - cpuBefore;
  return {
    perSecond: answered / duration,
    cpuMsPerRequest: cpuMs && cpuMs / answered,
    cpuShare: cpuMs && cpuMs / (duration * 1000),
  };
}
