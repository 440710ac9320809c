import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import type { Benchmark } from "../benchmark.ts";
import { compare, type OpenContenders } from "../compare.ts";
import { deploy, deploymentBody, flowgateTarget, functionFlows } from "../flows.ts";
import type { CallResponse, Target } from "../load/target.ts";
import { openRawHttp } from "../peers/open.ts";
import type { Server } from "../server.ts";
import { openService, type Service } from "../service.ts";

export const readFlows: Benchmark = {
  name: "flows",
  title: "REST: GET /flows of 10,000 nodes (2 MB), as it is and by gzip",
  run: (effort) =>
    compare(
      {
        open: async () => {
          const { service, raw, headers, stack } = await openServers(effort.profileDir);
          const identity: Target = { ...load, headers, connections: 8 };
          const gzip: Target = { ...identity, headers: { ...headers, "accept-encoding": "gzip" } };
          return {
            contenders: [
              { name: "Flowgate", server: service, target: identity },
              { name: "raw node:http", server: raw, target: identity },
              { name: "Flowgate, gzip", server: service, target: gzip },
            ],
            [Symbol.asyncDispose]: () => stack.disposeAsync(),
          } satisfies OpenContenders;
        },
        ratios: [
          { title: "GET /flows, 10,000 nodes, of raw node:http", of: "Flowgate", by: "raw node:http", goal: 0.95 },
          { title: "… gzip, of identity", of: "Flowgate, gzip", by: "Flowgate", goal: 10 },
        ],
        normalize: hashOf,
      },
      effort,
    ),
};

export const notModified: Benchmark = {
  name: "not-modified",
  title: "REST: GET /flows with the entity tag of what is active (304)",
  run: (effort) =>
    compare(
      {
        open: async () => {
          const { service, raw, headers, etag, stack } = await openServers(effort.profileDir);
          const target: Target = {
            ...load,
            headers: { ...headers, "if-none-match": etag },
            connections: 64,
            status: 304,
          };
          return {
            contenders: [
              { name: "Flowgate", server: service, target },
              { name: "raw node:http", server: raw, target },
            ],
            [Symbol.asyncDispose]: () => stack.disposeAsync(),
          } satisfies OpenContenders;
        },
        ratios: [{ title: "GET /flows, 304, of raw node:http", of: "Flowgate", by: "raw node:http", goal: 0.65 }],
        normalize: ({ headers }) => headers["etag"],
      },
      effort,
    ),
};

const load = { protocol: "http1", path: "/flows", callsPerConnection: 1 } as const;

type Servers = {
  readonly service: Service;
  /** Responds with the same bytes and entity tag. */
  readonly raw: Server;
  readonly headers: Record<string, string>;
  readonly etag: string;
  readonly stack: AsyncDisposableStack;
};

async function openServers(profileDir: string | undefined): Promise<Servers> {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await openService({ profileDir }));
  await deploy(flowgateTarget(service), deploymentBody(functionFlows(10_000)), "full");
  const headers = { authorization: service.authorization };
  const response = await fetch(`${service.url}/flows`, { headers: { ...headers, "accept-encoding": "identity" } });
  const etag = response.headers.get("etag") ?? "";
  const contentType = response.headers.get("content-type") ?? "";
  const raw = stack.use(await openRawHttp({ bytes: await response.bytes(), contentType, etag }));
  return { service, raw, headers, etag, stack: stack.move() };
}

function hashOf({ headers, body }: CallResponse): string {
  const bytes = headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
  return createHash("sha256").update(bytes).digest("hex");
}
