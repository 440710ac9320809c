import { type DescMessage, type DescMethodUnary, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { Code, createClient, type Transport } from "@connectrpc/connect";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuditKind, AuditService } from "../../gen/flowgate/v1/audit_pb.ts";
import { RevisionsService } from "../../gen/flowgate/v1/revisions_pb.ts";
import { TokensService } from "../../gen/flowgate/v1/tokens_pb.ts";
import { runCommand } from "../cli/run-command.ts";
import { deploy } from "./deploy.ts";
import { bearer, form, json, type Reply } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

// Tokens and the audit log. Each call of the table is made over REST and over every RPC protocol, with one expectation.

const adminAuth = {
  users: [user("admin", "*"), user("reader", "read"), user("clerk", ["tokens.write", "flows.read"]), user("gone", "*")],
  default: { permissions: ["settings.read"] },
};
const tokens = { admin: "", reader: "", clerk: "" };
type Role = keyof typeof tokens | "anonymous";

let service: Service;
const transports = new Map<string, Transport>();

beforeAll(async () => {
  service = await startService({ config: { ...withoutRuntime, adminAuth } });
  for (const role of ["admin", "reader", "clerk"] as const) {
    const scope = { admin: "*", reader: "read", clerk: "tokens.write flows.read" }[role];
    tokens[role] = await login(service, { username: role, scope });
  }
  for (const name of rpcProtocolNames) {
    transports.set(name, rpcProtocols[name](service.url));
  }
});
afterAll(() => service?.[Symbol.asyncDispose]());

const headersOf = (role: Role): Record<string, string> => (role === "anonymous" ? {} : bearer(tokens[role]));

function sendJson(method: string, path: string, body?: object, role: Role = "admin"): Promise<Reply> {
  const headers = { ...headersOf(role), ...(body !== undefined && json) };
  return service.send(method, path, { headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
}

type Rejection = readonly [status: number, code: Code, reason: string, message: RegExp];
type Row = {
  readonly name: string;
  readonly as?: Role;
  readonly rest: readonly [method: string, path: string, body?: object];
  readonly rpc: (transport: Transport, role: Role) => Promise<unknown>;
} & ({ readonly status?: number; readonly response: object } | { readonly rejection: Rejection });

/** Returns the response in the form of REST, or the code, reason and message of the error. */
function rpc<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
): Row["rpc"] {
  return async (transport, role) => {
    const outcome = await call(transport, method, input, headersOf(role));
    if ("refused" in outcome) {
      return [outcome.refused.code, outcome.refused.reason, outcome.refused.message];
    }
    const text = JSON.stringify(toJson(method.output, outcome.message, { alwaysEmitImplicit: true }));
    return JSON.parse(text.replaceAll(/AUDIT_KIND_(\w+)/g, (_, name: string) => name.toLowerCase()));
  };
}

const { listTokens, createToken, deleteToken, revokeTokens } = TokensService.method;
const { listAuditEntries, verifyAudit } = AuditService.method;
const { listRevisions } = RevisionsService.method;
const invalid = (message: RegExp): { rejection: Rejection } => ({
  rejection: [400, Code.InvalidArgument, "invalid_argument", message],
});
const denied = (permission: string): { rejection: Rejection } => ({
  rejection: [401, Code.PermissionDenied, "insufficient_scope", new RegExp(`lacks the permission ${permission}`)],
});
const id = expect.stringMatching(/^[\da-f]{24}$/) as string;
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/) as string;

const table: readonly Row[] = [
  {
    name: "a list of tokens",
    as: "reader",
    rest: ["GET", "/tokens?user=clerk"],
    rpc: rpc(listTokens, { user: "clerk" }),
    response: {
      tokens: [
        {
          id,
          user: "clerk",
          scope: "tokens.write flows.read",
          clientId: "service-admin",
          createTime: time,
          expireTime: time,
          valid: true,
        },
      ],
    },
  },
  {
    name: "a page of tokens",
    rest: ["GET", "/tokens?pageSize=1"],
    rpc: rpc(listTokens, { pageSize: 1 }),
    response: { tokens: [{ id }], nextPageToken: expect.any(String) },
  },
  {
    name: "a negative page size",
    rest: ["GET", "/tokens?pageSize=-1"],
    rpc: rpc(listTokens, { pageSize: -1 }),
    ...invalid(/^pageSize: must not be negative$/),
  },
  {
    name: "an invalid page token",
    rest: ["GET", "/tokens?pageToken=x"],
    rpc: rpc(listTokens, { pageToken: "x" }),
    ...invalid(/^pageToken: must be the nextPageToken of the previous page$/),
  },
  {
    name: "a named token",
    rest: ["POST", "/tokens", { name: "nightly job", scope: "flows.read", expiresIn: 60 }],
    rpc: rpc(createToken, { name: "nightly job", scope: "flows.read", expiresIn: 60 }),
    status: 201,
    response: {
      token: {
        id,
        name: "nightly job",
        user: "admin",
        scope: "flows.read",
        createTime: time,
        expireTime: time,
        valid: true,
      },
      accessToken: expect.stringMatching(/^[\w-]{43}$/),
    },
  },
  {
    name: "a named token without a name",
    rest: ["POST", "/tokens", { name: "" }],
    rpc: rpc(createToken, {}),
    ...invalid(/^name: must be 1 to 100 printable characters/),
  },
  {
    name: "a named token with more permissions than the caller",
    as: "clerk",
    rest: ["POST", "/tokens", { name: "more", scope: "flows.write" }],
    rpc: rpc(createToken, { name: "more", scope: "flows.write" }),
    rejection: [400, Code.InvalidArgument, "invalid_scope", /^scope: exceeds the permissions of the caller/],
  },
  {
    name: "a named token for a caller that may only read",
    as: "reader",
    rest: ["POST", "/tokens", { name: "a" }],
    rpc: rpc(createToken, { name: "a" }),
    ...denied("tokens.write"),
  },
  {
    name: "the deletion of an unknown token",
    rest: ["DELETE", "/tokens/unknown"],
    rpc: rpc(deleteToken, { id: "unknown" }),
    rejection: [404, Code.NotFound, "not_found", /^there is no token with this id: /],
  },
  {
    name: "the deletion of a token by a caller that may only read",
    as: "reader",
    rest: ["DELETE", "/tokens/unknown"],
    rpc: rpc(deleteToken, { id: "unknown" }),
    ...denied("tokens.write"),
  },
  {
    name: "the revocation of the tokens of a user who has none",
    rest: ["POST", "/tokens:revoke", { user: "nobody" }],
    rpc: rpc(revokeTokens, { target: { case: "user", value: "nobody" } }),
    response: { revoked: 0 },
  },
  {
    name: "a revocation without a target",
    rest: ["POST", "/tokens:revoke", {}],
    rpc: rpc(revokeTokens, {}),
    ...invalid(/^user: name the user/),
  },
  {
    name: "a revocation of not all tokens",
    rest: ["POST", "/tokens:revoke", { all: false }],
    rpc: rpc(revokeTokens, { target: { case: "all", value: false } }),
    ...invalid(/^user: name the user/),
  },
  {
    name: "a revocation by a caller that may only read",
    as: "reader",
    rest: ["POST", "/tokens:revoke", { all: true }],
    rpc: rpc(revokeTokens, { target: { case: "all", value: true } }),
    ...denied("tokens.write"),
  },
  {
    name: "audit entries by kind and user",
    as: "reader",
    rest: ["GET", "/audit?kind=sign_in&kind=deployment&user=clerk&startTime=2020-01-01T00:00:00Z"],
    rpc: rpc(listAuditEntries, {
      kind: [AuditKind.SIGN_IN, AuditKind.DEPLOYMENT],
      user: "clerk",
      startTime: { seconds: 1_577_836_800n },
    }),
    response: {
      entries: [
        {
          seq: 3,
          time,
          kind: "sign_in",
          user: "clerk",
          address: "127.0.0.1",
          protocol: "rest",
          requestId: expect.any(String),
          subject: id,
          count: 1,
          hash: expect.stringMatching(/^[\da-f]{64}$/),
        },
      ],
    },
  },
  {
    name: "audit entries before a time without any",
    rest: ["GET", "/audit?endTime=2020-01-01T00:00:00Z"],
    rpc: rpc(listAuditEntries, { endTime: { seconds: 1_577_836_800n } }),
    response: { entries: [] },
  },
  {
    name: "audit entries for a caller without the permission",
    as: "clerk",
    rest: ["GET", "/audit"],
    rpc: rpc(listAuditEntries, {}),
    ...denied("audit.read"),
  },
  {
    name: "a verification",
    as: "reader",
    rest: ["GET", "/audit:verify"],
    rpc: rpc(verifyAudit, {}),
    response: { intact: true, entries: expect.any(Number), head: expect.stringMatching(/^\d+:[\da-f]{64}$/) },
  },
  {
    name: "a verification with a head of another log",
    rest: ["GET", `/audit:verify?head=1:${"0".repeat(64)}`],
    rpc: rpc(verifyAudit, { head: `1:${"0".repeat(64)}` }),
    response: { intact: false, problem: "entry 1 has another hash than expected" },
  },
  {
    name: "a verification with an invalid head",
    rest: ["GET", "/audit:verify?head=x"],
    rpc: rpc(verifyAudit, { head: "x" }),
    ...invalid(/^head: must be the head of an earlier verification$/),
  },
];

/** The expected REST response. */
function replyTo(row: Row): object {
  if ("response" in row) {
    return { status: row.status ?? 200, body: row.response };
  }
  const [status, , code, pattern] = row.rejection;
  const [challenge, message] = [expect.stringContaining(code), expect.stringMatching(pattern)] as unknown[];
  return status === 401 ? { status, challenge, body: undefined } : { status, body: { code, message } };
}

/** The expected RPC response. */
function outcomeOf(row: Row): object {
  if ("response" in row) {
    return row.response;
  }
  const [, code, reason, message] = row.rejection;
  return [code, reason, expect.stringMatching(message)];
}

test.for(table)("over REST: $name", async (row) => {
  const [method, path, content] = row.rest;
  const reply = await sendJson(method, path, content, row.as);
  const { status, headers } = reply;
  const body = reply.body === "" ? undefined : reply.json();
  expect({ status, challenge: headers["www-authenticate"], body }).toMatchObject(replyTo(row));
});

const rpcRows = rpcProtocolNames.flatMap((protocol) => table.map((row) => ({ protocol, row, name: row.name })));

test.for(rpcRows)("over $protocol: $name", async ({ protocol, row }) => {
  const outcome = await row.rpc(transports.get(protocol) as Transport, row.as ?? "admin");
  expect(outcome).toMatchObject(outcomeOf(row));
});

test("the secret of a named token is not stored, cached or listed", async () => {
  const reply = await sendJson("POST", "/tokens", { name: "shown once" });
  const { accessToken } = reply.json() as { accessToken: string };
  expect(reply.headers["cache-control"]).toBe("no-store");
  expect((await sendJson("GET", "/tokens?pageSize=1000")).body).not.toContain(accessToken);
  expect((await sendJson("GET", "/audit")).body).not.toContain(accessToken);
});

async function createNamed(name: string): Promise<{ id: string; accessToken: string }> {
  const { token, accessToken } = (await sendJson("POST", "/tokens", { name })).json() as {
    token: { id: string };
    accessToken: string;
  };
  return { id: token.id, accessToken };
}

const statusWith = async (token: string): Promise<number> =>
  (await service.send("GET", "/flows", { headers: bearer(token) })).status;

test("a token is invalid after its deletion over any protocol", async () => {
  const ways: ((id: string) => Promise<unknown>)[] = [
    (id) => sendJson("DELETE", `/tokens/${id}`),
    ...[...transports.values()].map(
      (transport) => (id: string) => call(transport, deleteToken, { id }, headersOf("admin")),
    ),
  ];
  for (const [at, way] of ways.entries()) {
    const { id, accessToken } = await createNamed(`way ${at}`);
    // Twice, so that the token is cached.
    expect([at, await statusWith(accessToken), await statusWith(accessToken)]).toEqual([at, 200, 200]);
    await way(id);
    expect([at, await statusWith(accessToken)]).toEqual([at, 401]);
  }
});

test("the tokens of a user are revoked together, and no others", async () => {
  const own = [await login(service, { username: "gone" }), await login(service, { username: "gone" })];
  expect(await Promise.all(own.map(statusWith))).toEqual([200, 200]);
  expect((await sendJson("POST", "/tokens:revoke", { user: "gone" })).json()).toEqual({ revoked: 2 });
  expect(await Promise.all(own.map(statusWith))).toEqual([401, 401]);
  expect(await statusWith(tokens.admin)).toBe(200);
  const { entries } = (await sendJson("GET", "/audit?kind=token_revoked&pageSize=1")).json() as { entries: object[] };
  expect(entries).toMatchObject([{ user: "admin", detail: "all tokens of gone", count: 2 }]);
});

test("a deployment and a reload over REST are recorded with their origin", async () => {
  const revs = [await deploy(service, { flows: [] }, "full", { ...bearer(tokens.admin), "x-request-id": "deploy-1" })];
  await deploy(service, { flows: [] }, "reload", bearer(tokens.admin));
  const { entries } = (await sendJson("GET", "/audit?kind=deployment&pageSize=2")).json() as { entries: object[] };
  const entry = { user: "admin", address: "127.0.0.1", protocol: "rest", subject: revs[0] };
  expect(entries).toMatchObject([
    { ...entry, detail: "reload" },
    { ...entry, detail: "full", requestId: "deploy-1" },
  ]);
});

type Exported = {
  seq: number;
  time: string;
  kind: string;
  user?: string;
  address?: string;
  protocol?: string;
  requestId?: string;
  subject?: string;
  detail?: string;
  count: number;
  tokenId?: string;
  tokenName?: string;
  digest?: string;
  hash: string;
};

/** Recomputes a hash as docs/operations.md describes. */
function hashOf(previous: string, entry: Exported): string {
  const { user, address, protocol, requestId, subject, detail, tokenId, tokenName, digest } = entry;
  const texts = [user, address, protocol, requestId, subject, detail].map((text) => text ?? null);
  const fields = [previous, entry.seq, Date.parse(entry.time), entry.kind, ...texts, entry.count];
  if (tokenId !== undefined || digest !== undefined) {
    fields.push(tokenId ?? null, tokenName ?? null, digest ?? null);
  }
  return createHash("sha256").update(JSON.stringify(fields)).digest("hex");
}

test("an exported log can be verified without the service", async () => {
  const headers = { ...bearer(tokens.reader), accept: "application/x-ndjson" };
  const reply = await service.send("GET", "/audit:export", { headers });
  expect([reply.status, reply.headers["content-type"]]).toEqual([200, "application/x-ndjson"]);
  const entries = reply.body
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Exported);
  expect(entries.length).toBeGreaterThan(3);
  let previous = "";
  for (const [at, entry] of entries.entries()) {
    expect([entry.seq, hashOf(previous, entry)]).toEqual([at + 1, entry.hash]);
    previous = entry.hash;
  }
  const after = await service.send("GET", `/audit:export?afterSeq=${entries.length - 1}`, { headers });
  expect(JSON.parse(after.body.split("\n")[0] ?? "")).toEqual(entries.at(-1));
});

test.for(rpcProtocolNames)("the log can be exported over %s", async (protocol) => {
  const client = createClient(AuditService, transports.get(protocol) as Transport);
  const seqs: number[] = [];
  for await (const { entry } of client.exportAudit({ afterSeq: 1 }, { headers: headersOf("reader") })) {
    seqs.push(entry?.seq ?? 0);
  }
  expect(seqs.slice(0, 3)).toEqual([2, 3, 4]);
});

test("entries and revisions of an impossible time can't be listed", async () => {
  // Over gRPC only: JSON can't encode such a time.
  const transport = transports.get("gRPC") as Transport;
  const filter = { endTime: { seconds: 2n ** 62n } };
  const rejection = { refused: { reason: "invalid_argument", message: "endTime: is out of range" } };
  expect(await call(transport, listAuditEntries, filter, headersOf("admin"))).toMatchObject(rejection);
  expect(await call(transport, listRevisions, filter, headersOf("admin"))).toMatchObject(rejection);
});

test("failed logins and missing permissions are counted, and keep their count over a restart", async () => {
  await using flooded = await startService({
    config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*"), user("reader", "read")] } },
  });
  const fail = (username: string) =>
    flooded.send("POST", "/auth/token", {
      headers: form,
      body: new URLSearchParams(tokenParameters({ username, password: "wrong" })).toString(),
    });
  const mistyped = "hunter2 as a user name";
  await Promise.all(Array.from({ length: 10 }, (_, at) => fail(at % 2 === 0 ? "admin" : `${mistyped} ${at}`)));
  await Promise.all(Array.from({ length: 20 }, () => fail("admin")));
  const reader = await login(flooded, { username: "reader", scope: "read" });
  const named = await login(flooded, { username: "reader", scope: "flows.read" });
  await flooded.send("GET", "/flows", { headers: bearer(named) });
  const refused = Array.from({ length: 30 }, () =>
    flooded.send("POST", "/flows", { headers: { ...bearer(reader), ...json }, body: "[]" }),
  );
  expect(new Set((await Promise.all(refused)).map(({ status }) => status))).toEqual(new Set([401]));
  expect(await flooded.stop()).toBe(0);

  await using again = await startService({
    dataDir: flooded.dataDir,
    config: {
      ...withoutRuntime,
      adminAuth: { users: [user("admin", "*"), user("reader", "read")], default: { permissions: "read" } },
    },
  });
  const { entries } = (await again.send("GET", "/audit?kind=sign_in_failed&kind=permission_denied")).json() as {
    entries: Exported[];
  };
  const counts = new Map<string, number>();
  for (const { user = "", detail = "", count } of entries) {
    counts.set(`${user} ${detail}`, (counts.get(`${user} ${detail}`) ?? 0) + count);
  }
  expect(Object.fromEntries(counts)).toEqual({
    "admin wrong password": 5,
    "admin locked out": 20,
    " unknown user": 5,
    "reader flows.write": 30,
  });
  // Four kinds of event: the first of each, and the count of its repetitions.
  expect(entries).toHaveLength(8);
  expect(entries[0]).toMatchObject({ user: "reader", subject: "flowgate.v1.FlowsService.SetFlows", count: 29 });
  expect(JSON.stringify(entries)).not.toContain("hunter2");

  const { tokens: listed } = (await again.send("GET", "/tokens")).json() as { tokens: { lastUseTime?: string }[] };
  expect(listed.map(({ lastUseTime }) => typeof lastUseTime)).toEqual(["string", "string"]);
});

describe("flowgate audit verify", () => {
  const verify = (...args: string[]) => runCommand(["audit", "verify", ...args, "--data-dir", service.dataDir]);

  test("prints the head while the service runs, and detects a changed entry", async () => {
    const first = await verify();
    const head = /^The audit log is intact: \d+ entries\. Head: (\d+:[\da-f]{64})\n$/.exec(first.stdout)?.[1] ?? "";
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect((await sendJson("GET", `/audit:verify?head=${head}`)).json()).toMatchObject({ intact: true });
    await login(service, { username: "reader", scope: "read" });
    expect(await verify(head)).toMatchObject({ code: 0, stderr: "" });

    using db = new DatabaseSync(join(service.dataDir, "flowgate.db"), { timeout: 5_000 });
    db.exec("UPDATE audit SET user = 'somebody else' WHERE seq = 2");
    expect(await verify()).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "flowgate: The audit log did not pass the check: entry 2 was changed, or is not the one that followed entry 1.\n",
    });
    expect((await sendJson("GET", "/audit:verify")).json()).toMatchObject({
      intact: false,
      problem: "entry 2 was changed, or is not the one that followed entry 1",
    });
  });

  test("reports a data directory without a store", async () => {
    const { code, stderr } = await runCommand(["audit", "verify", "--data-dir", "/nonexistent/flowgate"]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^flowgate: The audit log can't be read: \/nonexistent\/flowgate\/flowgate\.db does not exist/,
      ),
    ]);
  });
});

test("without adminAuth, there are no tokens, and the log has no users", async () => {
  await using open = await startService({ config: withoutRuntime });
  for (const [method, path, body] of [
    ["GET", "/tokens"],
    ["POST", "/tokens", { name: "a" }],
    ["DELETE", "/tokens/a"],
    ["POST", "/tokens:revoke", { all: true }],
  ] as const) {
    const reply = await open.send(method, path, body && { headers: json, body: JSON.stringify(body) });
    expect([path, reply.status, reply.json()]).toEqual([
      path,
      400,
      { code: "auth_disabled", message: "This service issues no tokens: its adminAuth is not set." },
    ]);
  }
  const transport = rpcProtocols.gRPC(open.url);
  expect(await call(transport, createToken, { name: "a" })).toMatchObject({
    refused: { code: Code.FailedPrecondition, reason: "auth_disabled" },
  });
  await deploy(open, { flows: [] });
  const { entries } = (await open.send("GET", "/audit")).json() as { entries: Exported[] };
  expect(entries).toHaveLength(1);
  expect(entries[0]).not.toHaveProperty("user");
});
