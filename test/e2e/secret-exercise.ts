import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { tryDeploy } from "./deploy.ts";
import { endpoint, type Node, tab, reporter } from "./flow-builders.ts";
import { bearer, form, json, type Reply, type Sending, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import type { Secrets } from "./secret-canaries.ts";
import type { Service } from "./service.ts";
import { tokenParameters, user } from "./users.ts";

function encrypt(sets: object, key: string): string {
  const iv = randomBytes(16);
  const cipher = createCipheriv("aes-256-ctr", createHash("sha256").update(key).digest(), iv);
  return iv.toString("hex") + Buffer.concat([cipher.update(JSON.stringify(sets)), cipher.final()]).toString("base64");
}

const flows: Node[] = [
  tab("T"),
  reporter("a", "T"),
  reporter("b", "T"),
  ...endpoint("/fails", `throw new Error("a failure")`),
  { id: "debug", type: "debug", z: "T", x: 1, y: 1, complete: "true", console: true, tostatus: true, wires: [] },
];

/** The options of a service that `exerciseSecrets` can use. It also needs the type of `installReporter`. */
export function configWithSecrets({ secret }: Secrets) {
  return {
    log: { level: "trace" },
    credentialSecret: secret("credentialSecret"),
    limits: { bodyBytes: 100_000 },
    // A new process for each of many deployments would get no other secrets.
    runtime: { freshProcess: "never" },
    adminAuth: {
      users: [user("admin", "*", secret("password of admin")), user("reader", "read", secret("password of reader"))],
    },
  };
}

/**
 * Sends secrets in every place intended for one, and in other places. Returns the headers and bodies of all responses, except
 * those that issued the tokens.
 */
export async function exerciseSecrets(service: Service, secrets: Secrets): Promise<string[]> {
  const { secret } = secrets;
  const responses: string[] = [];
  const exchange = async (method: string, path: string, sending: Sending = {}): Promise<Reply> => {
    const reply = await service.send(method, path, sending);
    responses.push(JSON.stringify(reply.headers), reply.body);
    return reply;
  };
  const issue = async (username: string, scope: string, name: string): Promise<string> => {
    const parameters = tokenParameters({ username, scope, password: secret(`password of ${username}`) });
    const reply = await service.send("POST", "/auth/token", {
      headers: form,
      body: new URLSearchParams(parameters).toString(),
    });
    const { access_token: token } = reply.json() as { access_token: string };
    secrets.add(name, token);
    return token;
  };

  const admin = bearer(await issue("admin", "*", "token of admin"));
  const reader = bearer(await issue("reader", "read", "token of reader"));
  const deploy = async (deployment: { flows: Node[]; credentials?: object }, type = "full", headers = admin) => {
    const reply = await tryDeploy(service, deployment, type, headers);
    responses.push(JSON.stringify(reply.headers), reply.body);
  };
  const withInline = (credentials: object) => flows.map((node) => (node.id === "a" ? { ...node, credentials } : node));

  // Failed logins, with all kinds of errors.
  const wrong = tokenParameters({ username: "admin", password: secret("a wrong password") });
  for (const changes of [
    {},
    { username: secret("a username that none has") },
    { client_id: secret("a client_id") },
    { grant_type: secret("a grant_type") },
    { scope: secret("a scope") },
  ]) {
    const parameters = { ...wrong, ...changes };
    await exchange("POST", "/auth/token", { headers: form, body: new URLSearchParams(parameters).toString() });
    await exchange("POST", "/auth/token", { headers: json, body: JSON.stringify(parameters) });
  }
  const password = secret("a password in a broken request");
  const short = secret("a short password in a broken request", "Zqxjvkwb");
  const pin = secret("a password of digits alone", "7301948256");
  for (const body of [
    `password=${password}&password=${password}`,
    `password[${password}]=1`,
    `password=${password}%zz`,
  ]) {
    await exchange("POST", "/auth/token", { headers: form, body });
  }
  for (const body of [
    `{"password":"${password}"`,
    `{"password":"${password}","password":"${password}"}`,
    `{"password":{"${password}":"${password}"}}`,
    `{"password":${password}}`,
    `{"scope":"\\ud800${password}"}`,
    `{"password":${short}}`,
    `{"password":${pin}}`,
    `{"password":[${pin}]}`,
  ]) {
    await exchange("POST", "/auth/token", { headers: json, body });
    await exchange("POST", "/flowgate.v1.AuthService/IssueToken", { headers: json, body });
  }
  await exchange("POST", "/auth/token", { headers: { "content-type": "text/plain" }, body: password });
  // Keys of flows appear in errors, but other keys do not.
  await exchange("POST", "/auth/token", { headers: json, body: `{"${password}":1,"${password}":1}` });

  // In URLs and headers that are not intended for secrets.
  const query = secret("a password in a query string");
  for (const path of [
    "/auth/token",
    "/flows",
    "/settings",
    "/nowhere",
    "/healthz",
    "/flowgate.v1.FlowsService/GetFlows",
    "/%zz",
  ]) {
    for (const method of ["GET", "POST", "DELETE"]) {
      await exchange(method, `${path}?password=${query}&access_token=${query}&message=${query}`, { headers: admin });
    }
  }
  const header = secret("a password in a header");

  for (const authorization of [
    header,
    `Basic ${header}`,
    `Bearer ${header}`,
    `Bearer ${header.padEnd(43, "x").slice(0, 43)}`,
  ]) {
    await exchange("GET", "/flows", { headers: { authorization } });
  }
  await exchange("GET", "/flows", { headers: { ...admin, "service-api-version": header } });
  await exchange("POST", "/flows", { headers: { ...admin, ...json, "service-deployment-type": header }, body: "[]" });
  await exchange("GET", "/flows", { headers: { ...admin, cookie: header, "x-forwarded-for": header } });

  // Credentials in each form, with all kinds of errors.
  await deploy({ flows: withInline({ password: secret("an inline credential") }) });
  await deploy({ flows, credentials: { b: { user: "u", password: secret("a separate credential") } } }, "nodes");
  await deploy({ flows: withInline({ password: secret("a second inline credential") }) }, "flows");
  await deploy({
    flows,
    credentials: { $: encrypt({ a: { password: secret("an encrypted credential") } }, secret("credentialSecret")) },
  });
  await deploy({
    flows,
    credentials: { $: encrypt({ a: { password: secret("another encrypted one") } }, secret("another key")) },
  });
  await deploy({ flows, credentials: { $: encrypt({ a: secret("an encrypted text") }, secret("credentialSecret")) } });
  await deploy({ flows, credentials: { $: secret("a broken $") } });
  await deploy({ flows }, "reload");
  await deploy({ flows: withInline({ password: secret("a refused credential") }) }, "full", reader);
  const invalid = secret("a credential in an invalid request");
  for (const credentials of [{ password: [invalid] }, invalid, [invalid], { password: `${invalid}\ud800` }]) {
    await deploy({ flows: withInline(credentials as object) });
    await deploy({ flows, credentials: { a: credentials } });
    await deploy({ flows, credentials: credentials as object });
  }
  for (const body of [
    `{"flows":[{"id":"a","type":"b","credentials":{"values":{"password":${pin}}}}]}`,
    `{"flows":[],"credentials":{"nodes":{"a":{"values":{"password":${pin}}}}}}`,
    `{"credentials":{"encrypted":${short}}}`,
  ]) {
    await exchange("POST", "/flowgate.v1.FlowsService/SetFlows", { headers: { ...json, ...admin }, body });
  }
  for (const body of [
    `[{"credentials":{"password":"${invalid}"`,
    `[{"credentials":{"p":"${invalid}","p":"${invalid}"}}]`,
  ]) {
    await exchange("POST", "/flows", { headers: { ...json, ...admin }, body });
    await exchange("POST", "/flowgate.v1.FlowsService/SetFlows", {
      headers: { ...json, ...admin },
      body: `{"flows":${body}}`,
    });
  }
  await exchange("POST", "/flows", {
    headers: { ...json, ...admin },
    body: JSON.stringify(withInline({ password: invalid.padEnd(100_001, "x") })),
  });
  await deploy({
    flows: [
      ...withInline({ password: secret("a credential beside a missing type") }),
      { id: "m", type: "missing", z: "T", x: 1, y: 1 },
    ],
  });
  await deploy({ flows: withInline({ password: secret("the last credential") }) });
  // A flow that fails never responds.
  service.get("/fails", admin).catch(() => "");
  await service.untilLogged(/a failure/);

  // The same over RPC.
  for (const protocol of rpcProtocolNames) {
    const transport = rpcProtocols[protocol](service.url);
    const outcomes = [
      await call(transport, AuthService.method.issueToken, {
        clientId: "service-admin",
        grantType: "password",
        scope: "*",
        username: `unknown over ${protocol}`,
        password: secret("a password over RPC"),
      }),
      await call(
        transport,
        FlowsService.method.setFlows,
        {
          flows: flows.map(({ id, type, label: _label, ...properties }) => ({
            id,
            type,
            properties: properties as never,
          })),
          credentials: { nodes: { a: { values: { password: secret("a credential over RPC") } } } },
        },
        admin,
      ),
      await call(
        transport,
        FlowsService.method.setFlows,
        { flows: [], credentials: { encrypted: secret("a broken $ over RPC") } },
        admin,
      ),
      await call(transport, FlowsService.method.getFlows, {}, admin),
    ];
    responses.push(
      JSON.stringify(
        outcomes.map((outcome) =>
          "refused" in outcome ? { ...outcome.refused, code: Code[outcome.refused.code] } : outcome.message,
        ),
      ),
    );
  }

  for (const path of ["/auth/login", "/flows", "/settings", "/readyz", "/healthz"]) {
    await exchange("GET", path, { headers: admin });
    await exchange("GET", path, { headers: { ...admin, ...v2 } });
  }
  await exchange("POST", "/auth/revoke", {
    headers: { ...json, ...admin },
    body: JSON.stringify({ token: secret("token of reader") }),
  });
  await exchange("POST", "/auth/revoke", { headers: { ...form, ...admin }, body: `token=${secret("token of admin")}` });
  return responses;
}
