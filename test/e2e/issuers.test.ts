import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { type Claims, type LocalIssuer, audience, createKey, issuerUrl, openIssuer } from "../auth/local-issuer.ts";
import { runCommand } from "../cli/run-command.ts";
import { deploy } from "./deploy.ts";
import { bearer, json } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";
import { watch, watchProtocols } from "./watch-events.ts";

const rule = (permissions: string | string[], claims: object = { iss: issuerUrl }) => ({ claims, permissions });
const configured = (issuer: LocalIssuer, ...rules: object[]) => ({
  name: "local",
  issuer: issuerUrl,
  audience,
  jwksUrl: issuer.jwksUrl,
  algorithms: ["ES256"],
  rules,
});

let issuer: LocalIssuer;
/** Its keys can't be read. */
let failing: LocalIssuer;
const failingUrl = "https://failing.example";
let service: Service;

beforeAll(async () => {
  issuer = await openIssuer();
  failing = await openIssuer();
  failing.respond = (response) => void response.writeHead(500).end();
  const issuers = [
    configured(issuer, rule("read"), rule("*", { groups: "admins" })),
    { ...configured(failing, rule("*", { iss: failingUrl })), name: "failing", issuer: failingUrl },
  ];
  service = await startService({ config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*")], issuers } } });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await issuer?.[Symbol.asyncDispose]();
  await failing?.[Symbol.asyncDispose]();
});

/** The caller according to the service, or the reason of its rejection. */
const callers = {
  async REST(token: string): Promise<string | undefined> {
    const { status, headers, body } = await service.send("GET", "/auth/identity", { headers: bearer(token) });
    if (status === 401) {
      return /error="(\w+)"/.exec(headers["www-authenticate"] ?? "")?.[1];
    }
    const { username, code } = JSON.parse(body) as { username?: string; code?: string };
    return username ?? `${status} ${code}`;
  },
  async gRPC(token: string): Promise<string | undefined> {
    const outcome = await call(rpcProtocols.gRPC(service.url), AuthService.method.getIdentity, {}, bearer(token));
    return "message" in outcome ? outcome.message.username : outcome.refused.reason;
  },
};

describe.each(Object.entries(callers))("over %s", (protocol, identify) => {
  test("a token of the issuer identifies the caller, and others are rejected", async () => {
    const invalid = "invalid_token";
    const seconds = Math.floor(Date.now() / 1000);
    expect(await identify(await issuer.sign())).toBe("local:someone");
    expect(await identify(await issuer.sign({ exp: seconds - 60 }))).toEqual(invalid);
    expect(await identify(await issuer.sign({ aud: "another" }))).toEqual(invalid);
    expect(await identify(await issuer.sign({ iss: "https://other.example" }))).toEqual(invalid);
    expect(await identify(await issuer.sign({}, { key: await createKey("first") }))).toEqual(invalid);
    const [, payload] = (await issuer.sign({ groups: "admins" })).split(".");
    const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    expect(await identify(`${none}.${payload}.`)).toEqual(invalid);
  });

  test("a token whose key can't be read gets `unavailable`, while other callers are served", async () => {
    const unavailable = protocol === "REST" ? "503 unavailable" : "unavailable";
    expect(await identify(await failing.sign({ iss: failingUrl }))).toBe(unavailable);
    expect(await identify(await issuer.sign())).toBe("local:someone");
    expect(await identify(await login(service, {}))).toBe("admin");
  });
});

test("the permissions are those of the rules, and history and audit log name the caller", async () => {
  const admin = bearer(await issuer.sign({ sub: "ada", groups: ["admins"], jti: "job-7" }));
  const reader = await service.send("POST", "/flows", {
    headers: { ...bearer(await issuer.sign()), ...json },
    body: "[]",
  });
  expect([reader.status, reader.headers["www-authenticate"]]).toEqual([
    401,
    'Bearer realm="flowgate", error="insufficient_scope", scope="flows.write"',
  ]);
  await deploy(service, { flows: [] }, "full", admin);
  const newest = async (path: string) => (await service.send("GET", path, { headers: admin })).json();
  expect(await newest("/revisions?pageSize=1")).toMatchObject({ revisions: [{ user: "local:ada", tokenId: "job-7" }] });
  expect(await newest("/audit?kind=deployment&pageSize=1")).toMatchObject({
    entries: [{ user: "local:ada", tokenId: "job-7" }],
  });
  expect(await newest("/audit?kind=permission_denied")).toMatchObject({ entries: [{ user: "local:someone" }] });
  const token = await service.send("POST", "/tokens", { headers: { ...admin, ...json }, body: '{"name":"a"}' });
  expect([token.status, token.json()]).toMatchObject([400, { code: "user_required" }]);
});

test("the command line takes the token from the environment", async () => {
  const env = { FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN: await issuer.sign() };
  const { code, stdout } = await runCommand(["whoami"], { env });
  expect([code, stdout]).toEqual([0, expect.stringContaining("local:someone")]);
});

test("the service issues no tokens without users, and rejects JWTs of unknown issuers", async () => {
  await using other = await startService({
    config: { ...withoutRuntime, adminAuth: { issuers: [configured(issuer, rule("read"))] } },
  });
  expect(other.log()).toContain("Authentication: on, for tokens of 1 issuer\n");
  expect((await other.send("GET", "/auth/login")).json()).toEqual({});
  const body = JSON.stringify(tokenParameters());
  expect((await other.send("POST", "/auth/token", { headers: json, body })).json()).toEqual({
    error: "invalid_request",
    error_description: "This service issues no tokens: its adminAuth has no users.",
  });
  expect((await other.send("GET", "/flows", { headers: bearer(await issuer.sign()) })).status).toBe(200);
  expect((await other.send("GET", "/flows")).headers["www-authenticate"]).toBe('Bearer realm="flowgate"');
  const env = { FLOWGATE_SERVER: other.url };
  const missing = await runCommand(["status"], { env });
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining("It has no logins.")]);
  expect(missing.stderr).not.toContain("flowgate login");
  const rejected = await runCommand(["whoami"], {
    env: { ...env, FLOWGATE_TOKEN: await issuer.sign({ aud: "another" }) },
  });
  expect([rejected.code, rejected.stderr]).toEqual([
    1,
    expect.stringContaining("Set FLOWGATE_TOKEN to a valid one of"),
  ]);
  const { code, stderr } = await runCommand(["login"], { env });
  expect([code, stderr]).toEqual([1, expect.stringContaining("set FLOWGATE_TOKEN to a token of an issuer")]);
  const admitted = await runCommand(["login"], { env: { ...env, FLOWGATE_TOKEN: await issuer.sign() } });
  expect([admitted.code, admitted.stdout]).toEqual([0, expect.stringContaining("requires no login")]);
});

test("issuers are added, changed and removed without a restart, and calls that stay open end", async () => {
  const users = [user("admin", "*")];
  await using other = await startService({ config: { ...withoutRuntime, adminAuth: { users } } });
  const replace = (...issuers: object[]) => other.replaceConfig({ ...withoutRuntime, adminAuth: { users, issuers } });
  const headers = bearer(await issuer.sign());
  const status = async () => (await other.send("GET", "/flows", { headers })).status;
  expect(await status()).toBe(401);
  await replace(configured(issuer, rule("read")));
  await eventually(async () => expect(await status()).toBe(200));
  await using stream = watch(watchProtocols["SSE"] as (typeof watchProtocols)[string], other.url, {}, headers);
  await stream.until(({ kind }) => kind === "snapshotEnd");
  await replace(configured(issuer, rule("settings.read")));
  await eventually(async () => expect(await status()).toBe(401));
  expect(await stream.ended).toBe("insufficient_scope");
  await replace({ ...configured(issuer, rule("read")), jwksUrl: undefined, jwksFile: "/nowhere/keys.json" });
  await other.untilLogged(
    /"reason":"adminAuth\.issuers: jwksFile of local can't be used: ENOENT".*previous users stay/,
  );
  expect((await other.send("GET", "/settings", { headers })).status).toBe(200);
});

/** The claims that the platforms of docs/configuration.md issue, for the subjects of its rules. */
const platforms: Record<string, Claims> = {
  github: {
    sub: "repo:octocat/flows:ref:refs/heads/main",
    ref: "refs/heads/main",
    ref_protected: "true",
    ref_type: "branch",
    sha: "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
    repository: "octocat/flows",
    repository_id: "1296269",
    repository_owner: "octocat",
    repository_owner_id: "583231",
    repository_visibility: "private",
    run_id: "1",
    run_attempt: "1",
    actor: "octocat",
    actor_id: "583231",
    workflow: "deploy",
    event_name: "push",
    job_workflow_ref: "octocat/flows/.github/workflows/deploy.yaml@refs/heads/main",
    runner_environment: "github-hosted",
  },
  gitlab: {
    sub: "project_path:octocat/flows:ref_type:branch:ref:main",
    namespace_id: "72",
    namespace_path: "octocat",
    project_id: "42",
    project_path: "octocat/flows",
    user_id: "1",
    user_login: "octocat",
    pipeline_id: "574",
    pipeline_source: "push",
    job_id: "302",
    ref: "main",
    ref_type: "branch",
    ref_path: "refs/heads/main",
    ref_protected: "true",
    groups_direct: ["octocat"],
  },
  cluster: {
    sub: "system:serviceaccount:monitoring:dashboard",
    "kubernetes.io": {
      namespace: "monitoring",
      pod: { name: "dashboard-0", uid: "5e0bd49b-f040-43b0-99b7-22765a53f7f3" },
      serviceaccount: { name: "dashboard", uid: "14ee3fa4-a7e2-420f-9f9a-dbc4507c3798" },
    },
  },
};

test("the issuers of docs/configuration.md accept tokens as their platforms issue them, and no others", async () => {
  const page = await readFile(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  const [, example = ""] = /## Tokens of other issuers[^]*?```yaml\n([^]*?)```/.exec(page) ?? [];
  const { issuers } = (parse(example) as { adminAuth: { issuers: { name: string; issuer: string }[] } }).adminAuth;
  expect(issuers.map(({ name }) => name)).toEqual(Object.keys(platforms));
  await using rsa = await openIssuer(0, [await createKey("rsa", "RS256")]);
  const local = issuers.map((each) => ({ ...each, jwksUrl: rsa.jwksUrl, jwksFile: undefined }));
  await using other = await startService({ config: { ...withoutRuntime, adminAuth: { issuers: local } } });
  for (const { name, issuer: iss } of issuers) {
    const statusOf = async (claims: Claims) =>
      (await other.send("GET", "/flows", { headers: bearer(await rsa.sign({ ...platforms[name], iss, ...claims })) }))
        .status;
    expect([name, await statusOf({})]).toEqual([name, 200]);
    const foreign = { repository_id: "1296270", project_id: "43", sub: "system:serviceaccount:monitoring:other" };
    expect([name, await statusOf(foreign)]).toEqual([name, 401]);
    expect([name, await statusOf({ aud: "https://other.example" })]).toEqual([name, 401]);
  }
});
