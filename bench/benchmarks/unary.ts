import type { Benchmark } from "../benchmark.ts";
import { compare, type Contender, type OpenContenders } from "../compare.ts";
import type { Target } from "../load/target.ts";
import { openGoContenders } from "../peers/go.ts";
import { openPeer } from "../peers/open.ts";
import { openService, type Service } from "../service.ts";
import { jsonOf } from "./login.ts";

/** The envelope of an empty message. */
const emptyMessage = Buffer.alloc(5);
const getLogin = "/flowgate.v1.AuthService/GetLogin";
const getSettings = "/flowgate.v1.SettingsService/GetSettings";
/** A call with a token whose response is encoded for each call, for comparison with GetLogin. */
const withToken = "Flowgate, GetSettings with a token";

const connectJsonTarget: Target = {
  protocol: "http1",
  path: getLogin,
  method: "POST",
  headers: { "content-type": "application/json", "connect-protocol-version": "1" },
  body: Buffer.from("{}"),
  connections: 64,
  callsPerConnection: 1,
};

const grpcTarget: Target = {
  protocol: "grpc",
  path: getLogin,
  headers: { "content-type": "application/grpc+proto", te: "trailers" },
  body: emptyMessage,
  connections: 4,
  callsPerConnection: 16,
};

const grpcWebTarget: Target = {
  ...connectJsonTarget,
  headers: { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" },
  body: emptyMessage,
};

export const connectJson: Benchmark = {
  name: "connect-json",
  title: "Connect: unary GetLogin, JSON, HTTP/1.1",
  run: (effort) =>
    compare(
      {
        open: () =>
          openContenders(effort.profileDir, connectJsonTarget, async (stack) => [
            {
              name: "stock Connect",
              server: stack.use(await openPeer("connect.ts", "http1")),
              target: connectJsonTarget,
            },
            { name: "Fastify POST", server: stack.use(await openPeer("fastify.ts")), target: connectJsonTarget },
          ]),
        ratios: [
          { title: "Connect unary JSON, of the stock plugin", of: "Flowgate", by: "stock Connect", goal: 5.5 },
          { title: "… of a Fastify POST", of: "Flowgate", by: "Fastify POST", goal: 0.75 },
          { title: "… of connect-go", of: "Flowgate", by: "connect-go" },
        ],
        normalize: (response, name) => (name === withToken ? undefined : jsonOf(response)),
      },
      effort,
    ),
};

export const grpc: Benchmark = {
  name: "grpc",
  title: "gRPC: unary GetLogin over HTTP/2 without TLS",
  run: (effort) =>
    compare(
      {
        open: () =>
          openContenders(
            effort.profileDir,
            grpcTarget,
            async (stack) => [
              { name: "stock Connect", server: stack.use(await openPeer("connect.ts", "h2c")), target: grpcTarget },
              { name: "grpc-js", server: stack.use(await openPeer("grpc-js.ts")), target: grpcTarget },
            ],
            { "grpc-go": "grpc" },
          ),
        ratios: [
          { title: "gRPC unary (h2c), of stock Connect", of: "Flowgate", by: "stock Connect", goal: 7 },
          { title: "… of grpc-js", of: "Flowgate", by: "grpc-js", goal: 1.25 },
          { title: "… of connect-go", of: "Flowgate", by: "connect-go", goal: 1.5 },
          { title: "… of grpc-go", of: "Flowgate", by: "grpc-go" },
        ],
        normalize: ({ body }, name) => (name === withToken ? undefined : Buffer.from(body).toString("hex")),
      },
      effort,
    ),
};

export const grpcWeb: Benchmark = {
  name: "grpc-web",
  title: "gRPC-Web: unary GetLogin over HTTP/1.1",
  run: (effort) =>
    compare(
      {
        open: () =>
          openContenders(effort.profileDir, grpcWebTarget, async (stack) => [
            { name: "stock Connect", server: stack.use(await openPeer("connect.ts", "http1")), target: grpcWebTarget },
          ]),
        ratios: [
          { title: "gRPC-Web unary (HTTP/1.1), of stock Connect", of: "Flowgate", by: "stock Connect", goal: 5 },
          { title: "… of connect-go", of: "Flowgate", by: "connect-go" },
        ],
        normalize: ({ body }, name) => (name === withToken ? undefined : messageOf(body)),
      },
      effort,
    ),
};

/** Returns the first message without the trailers, whose format may differ. */
function messageOf(body: Uint8Array): string {
  const bytes = Buffer.from(body);
  return bytes.subarray(0, 5 + bytes.readUInt32BE(1)).toString("hex");
}

async function openContenders(
  profileDir: string | undefined,
  target: Target,
  openPeers: (stack: AsyncDisposableStack) => Promise<Contender[]>,
  goStacks: Parameters<typeof openGoContenders>[1] = {},
): Promise<OpenContenders> {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await openService({ profileDir }));
  const peers = await openPeers(stack);
  const go = await openGoContenders(stack, { "connect-go": "connect", ...goStacks }, target);
  const all = stack.move();
  return {
    contenders: [
      { name: "Flowgate", server: service, target },
      ...peers,
      ...go.contenders,
      { name: withToken, server: service, target: settingsTarget(service, target) },
    ],
    notes: go.notes,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function settingsTarget({ authorization }: Service, target: Target): Target {
  return { ...target, path: getSettings, headers: { ...target.headers, authorization } };
}
