import { Code, ConnectError, type ConnectRouter, createClient, type HandlerContext } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { TokenErrorReason, TokenErrorSchema } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";

/** The code over RPC and the HTTP status of each reason. */
const outcomes: Record<Reason, [code: Code, status: number]> = {
  invalid_json: [Code.InvalidArgument, 400],
  invalid_flows: [Code.InvalidArgument, 400],
  invalid_credentials: [Code.InvalidArgument, 400],
  invalid_deployment_type: [Code.InvalidArgument, 400],
  version_mismatch: [Code.Aborted, 409],
  merge_conflict: [Code.Aborted, 409],
  precondition_failed: [Code.FailedPrecondition, 400],
  idempotency_key_reused: [Code.FailedPrecondition, 400],
  nothing_to_undo: [Code.FailedPrecondition, 400],
  approval_required: [Code.PermissionDenied, 403],
  own_proposal: [Code.PermissionDenied, 403],
  foreign_proposal: [Code.PermissionDenied, 403],
  proposal_stale: [Code.FailedPrecondition, 400],
  proposal_closed: [Code.FailedPrecondition, 400],
  proposal_changed: [Code.FailedPrecondition, 400],
  nothing_proposed: [Code.FailedPrecondition, 400],
  no_runtime: [Code.FailedPrecondition, 400],
  flows_stopped: [Code.FailedPrecondition, 400],
  flows_not_running: [Code.FailedPrecondition, 400],
  flows_unresponsive: [Code.DeadlineExceeded, 504],
  call_failed: [Code.FailedPrecondition, 400],
  node_disabled: [Code.FailedPrecondition, 400],
  no_input: [Code.FailedPrecondition, 400],
  payload_too_large: [Code.ResourceExhausted, 429],
  module_refused: [Code.PermissionDenied, 403],
  module_failed: [Code.FailedPrecondition, 400],
  module_in_use: [Code.FailedPrecondition, 400],
  modules_busy: [Code.Aborted, 409],
  registry_unavailable: [Code.Unavailable, 503],
  no_token: [Code.Unauthenticated, 401],
  invalid_token: [Code.Unauthenticated, 401],
  invalid_identity: [Code.Unauthenticated, 401],
  insufficient_scope: [Code.PermissionDenied, 403],
  invalid_request: [Code.InvalidArgument, 400],
  invalid_client: [Code.Unauthenticated, 401],
  invalid_grant: [Code.Unauthenticated, 401],
  unsupported_grant_type: [Code.InvalidArgument, 400],
  invalid_scope: [Code.InvalidArgument, 400],
  temporarily_unavailable: [Code.ResourceExhausted, 429],
  auth_disabled: [Code.FailedPrecondition, 400],
  user_required: [Code.FailedPrecondition, 400],
  invalid_argument: [Code.InvalidArgument, 400],
  not_found: [Code.NotFound, 404],
  limit_exceeded: [Code.ResourceExhausted, 429],
  unavailable: [Code.Unavailable, 503],
  overloaded: [Code.Unavailable, 503],
  misdirected_request: [Code.PermissionDenied, 403],
  foreign_origin: [Code.PermissionDenied, 403],
  internal: [Code.Internal, 500],
};

const clients = {
  Connect: (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  gRPC: (baseUrl: string) => createGrpcTransport({ baseUrl }),
  "gRPC-Web": (baseUrl: string) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
};

/** A server that throws the result of `fail`: in the gate for calls with the header x-gate, otherwise in the implementation. */
async function open(fail: (context: HandlerContext) => never) {
  const lines: string[] = [];
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "error", destination: { write: (line) => void lines.push(line) } }),
    routes: (router: ConnectRouter) =>
      void router.service(FlowsService, {
        getFlows: (_request, context) => fail(context),
        setFlows: (_request, context) => fail(context),
      }),
    gate: (context) => (context.requestHeader.has("x-gate") ? fail(context) : undefined),
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 * 1024 },
  });
  return Object.assign(server, { lines });
}

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return ConnectError.from(
    await call.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    ),
  );
}

describe.each([
  ["an implementation", {}],
  ["the gate", { "x-gate": "1" }],
])("from %s", (_name, headers: Record<string, string>) => {
  test("each reason has one code over all RPC protocols, and one HTTP status", async () => {
    await using server = await open(({ requestHeader }) => {
      throw new FlowgateError(requestHeader.get("x-reason") as Reason, "what is wrong: what to do");
    });
    for (const [reason, [code, status]] of Object.entries(outcomes)) {
      const sent = { ...headers, "x-reason": reason };
      const response = await fetch(`${server.url}/flows`, { headers: sent });
      expect([response.status, await response.json()]).toEqual([
        status,
        { code: reason, message: "what is wrong: what to do" },
      ]);
      for (const [protocol, transport] of Object.entries(clients)) {
        const client = createClient(FlowsService, transport(server.url));
        const failure = await failureOf(client.getFlows({}, { headers: sent }));
        expect([protocol, failure.code, failure.rawMessage]).toEqual([protocol, code, "what is wrong: what to do"]);
        expect(failure.findDetails(ErrorInfoSchema)).toMatchObject([{ reason, domain: "flowgate" }]);
      }
    }
    expect(server.lines).toEqual([]);
  });

  test("headers and details reach the client, over HTTP as the body of the detail", async () => {
    const detail = { error: TokenErrorReason.INVALID_GRANT, errorDescription: "The password is wrong." };
    await using server = await open(() => {
      throw new FlowgateError("invalid_grant", "The password is wrong.", {
        details: [{ desc: TokenErrorSchema, value: detail }],
        retryAfterMs: 7000,
      });
    });
    const response = await fetch(`${server.url}/flows`, { headers });
    expect([response.status, response.headers.get("retry-after"), await response.json()]).toEqual([
      400,
      "7",
      { error: "invalid_grant", error_description: "The password is wrong." },
    ]);
    for (const transport of Object.values(clients)) {
      const failure = await failureOf(createClient(FlowsService, transport(server.url)).getFlows({}, { headers }));
      expect(failure.metadata.get("retry-after")).toBe("7");
      expect(failure.details).toHaveLength(2);
      expect(failure.findDetails(TokenErrorSchema)).toMatchObject([detail]);
    }
  });
});

const oddKeys: [what: string, key: string, path: string][] = [
  ["a lone surrogate", String.raw`\ud800`, String.raw`flows[0].properties['\ud800']`],
  ["a long name", "n".repeat(100_000), `flows[0].properties['${"n".repeat(64)}…']`],
];

test.each(oddKeys)("a path with %s is valid in every protocol", async (_what, key, path) => {
  await using server = await open(() => expect.unreachable());
  const json = Buffer.from(`{"flows":[{"id":"a","type":"t","properties":{"${key}":1,"${key}":1}}]}`);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(json.length, 1);
  const send = async (type: string, body: Buffer): Promise<[number, string]> => {
    const response = await fetch(`${server.url}/flowgate.v1.FlowsService/SetFlows`, {
      method: "POST",
      headers: { "content-type": type },
      body: Buffer.from(body),
    });
    return [response.status, await response.text()];
  };

  const [status, connect] = await send("application/json", json);
  const { message } = JSON.parse(connect) as { message: string };
  expect([status, message.split(": ")[0]]).toEqual([400, path]);
  const [webStatus, web] = await send("application/grpc-web+json", Buffer.concat([prefix, json]));
  const [, grpcMessage = ""] = /^.*grpc-message: (.*)\r$/m.exec(web) ?? [];
  expect([webStatus, decodeURIComponent(grpcMessage)]).toEqual([200, message]);
  expect(server.lines).toEqual([]);
});
