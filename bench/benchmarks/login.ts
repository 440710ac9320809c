import type { Benchmark } from "../benchmark.ts";
import { compare, type OpenContenders } from "../compare.ts";
import type { CallResponse, Target } from "../load/target.ts";
import { openGoContenders } from "../peers/go.ts";
import { openFastifyGet } from "../peers/open.ts";
import { openService } from "../service.ts";

const target: Target = { protocol: "http1", path: "/auth/login", connections: 64, callsPerConnection: 1 };

export const login: Benchmark = {
  name: "login",
  title: "REST: GET /auth/login",
  run: (effort) =>
    compare(
      {
        open: () => open(effort.profileDir),
        ratios: [
          { title: "REST GET /auth/login, of a bare Fastify route", of: "Flowgate", by: "bare Fastify", goal: 0.88 },
          { title: "… of grpc-gateway in process", of: "Flowgate", by: "grpc-gateway in process", goal: 1.5 },
          { title: "… of grpc-gateway as proxy", of: "Flowgate", by: "grpc-gateway as proxy", goal: 4.5 },
          { title: "… of vanguard-go", of: "Flowgate", by: "vanguard-go" },
        ],
        normalize: jsonOf,
      },
      effort,
    ),
};

/** Returns the parsed body, and the media type without its parameters. */
export function jsonOf({ body, headers }: CallResponse): unknown {
  return [JSON.parse(Buffer.from(body).toString()), String(headers["content-type"]).split(";")[0]];
}

async function open(profileDir: string | undefined): Promise<OpenContenders> {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await openService({ profileDir }));
  const response = await fetch(`${service.url}${target.path}`);
  const contentType = response.headers.get("content-type") ?? "";
  const fastify = stack.use(await openFastifyGet({ bytes: await response.bytes(), contentType }));
  const go = await openGoContenders(
    stack,
    {
      "grpc-gateway in process": "grpc-gateway",
      "grpc-gateway as proxy": "grpc-gateway-proxy",
      "vanguard-go": "vanguard",
    },
    target,
  );
  const all = stack.move();
  return {
    contenders: [
      { name: "Flowgate", server: service, target },
      { name: "bare Fastify", server: fastify, target },
      ...go.contenders,
    ],
    notes: go.notes,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
