import type { Benchmark } from "../benchmark.ts";
import { compare, type OpenContenders } from "../compare.ts";
import type { Target } from "../load/target.ts";
import { openFastifyGet } from "../peers/open.ts";
import { openService } from "../service.ts";
import { jsonOf } from "./login.ts";

export const settings: Benchmark = {
  name: "settings",
  title: "REST with a token: GET /settings; the bare route checks none",
  run: (effort) =>
    compare(
      {
        open: () => open(effort.profileDir),
        ratios: [
          {
            title: "REST GET /settings with a token, of a bare Fastify route",
            of: "Flowgate",
            by: "bare Fastify",
            goal: 0.65,
          },
        ],
        normalize: jsonOf,
      },
      effort,
    ),
};

async function open(profileDir: string | undefined): Promise<OpenContenders> {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await openService({ profileDir }));
  const headers = { authorization: service.authorization };
  const target: Target = { protocol: "http1", path: "/settings", headers, connections: 64, callsPerConnection: 1 };
  const response = await fetch(`${service.url}${target.path}`, { headers });
  const contentType = response.headers.get("content-type") ?? "";
  const fastify = stack.use(await openFastifyGet({ bytes: await response.bytes(), contentType }));
  const all = stack.move();
  return {
    contenders: [
      { name: "Flowgate", server: service, target },
      { name: "bare Fastify", server: fastify, target },
    ],
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
