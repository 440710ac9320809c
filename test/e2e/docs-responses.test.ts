import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { OpenApiDocument } from "@flowgate/gateway";
import type { OperationObject } from "../../packages/gateway/src/openapi/document.ts";
import { createSchemaCheck, type SchemaCheck } from "../../packages/gateway/test/openapi-check.ts";
import { tab } from "./flow-builders.ts";
import { bearer, form, json, type Reply, type Sending, v2 } from "./rest.ts";
import { startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

const described = await readFile(new URL("../../docs/api.md", import.meta.url), "utf8");

test("requests and responses conform to /openapi.json, and the error codes are in docs/api.md", async () => {
  await using service = await startService({
    config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*"), user("reader", "read")] } },
  });
  const document = withAlternatives((await service.send("GET", "/openapi.json")).body);
  const check = createSchemaCheck(document);
  const [admin, reader] = [
    await login(service, { username: "admin" }),
    await login(service, { username: "reader", scope: "read" }),
  ];
  const nodes = JSON.stringify([tab("a"), { ...tab("b"), label: 1, credentials: { user: "me" } }]);
  const rev = async () =>
    ((await service.send("GET", "/flows", { headers: { ...bearer(admin), ...v2 } })).json() as { rev: string }).rev;

  const calls: [method: string, path: string, sending: Sending, status: number][] = [
    ["GET", "/auth/login", {}, 200],
    ["POST", "/auth/token", { headers: json, body: JSON.stringify(tokenParameters()) }, 200],
    ["POST", "/auth/token", { headers: json, body: JSON.stringify(tokenParameters({ password: "no" })) }, 400],
    ["POST", "/auth/token", { headers: json, body: JSON.stringify(tokenParameters({ client_id: "no" })) }, 401],
    ["POST", "/auth/token", { headers: { "content-type": "text/xml" }, body: "<a/>" }, 415],
    ["POST", "/flows", { headers: { ...bearer(admin), ...json }, body: nodes }, 204],
    ["POST", "/flows", { headers: { ...bearer(admin), ...json, ...v2 }, body: `{"flows":${nodes}}` }, 200],
    ["POST", "/flows", { headers: { ...bearer(admin), ...json, ...v2 }, body: `{"flows":${nodes},"rev":"no"}` }, 409],
    ["POST", "/flows", { headers: { ...bearer(admin), ...json, ...v2 }, body: '{"flows":[{"id":"a"}]}' }, 400],
    ["POST", "/flows", { headers: { ...bearer(admin), ...json, "if-match": 'W/"a"' }, body: nodes }, 412],
    ["POST", "/flows", { headers: { ...bearer(admin), "service-deployment-type": "reload" } }, 204],
    ["POST", "/flows", { headers: { ...bearer(reader), ...json }, body: nodes }, 401],
    ["GET", "/flows", { headers: bearer(reader) }, 200],
    ["GET", "/flows", { headers: { ...bearer(reader), ...v2 } }, 200],
    ["GET", "/flows", { headers: { ...bearer(reader), "service-api-version": "v3" } }, 400],
    ["GET", "/flows", { headers: { ...bearer(reader), accept: "text/html" } }, 406],
    ["GET", "/flows", { headers: {} }, 401],
    ["GET", "/flows?no=1", { headers: bearer(reader) }, 400],
    ["GET", "/settings", { headers: bearer(reader) }, 200],
    ["GET", "/healthz", {}, 200],
    ["GET", "/metrics", { headers: bearer(reader) }, 200],
    ["GET", "/metrics", {}, 401],
    ["POST", "/auth/revoke", { headers: form, body: `token=${reader}` }, 401],
    ["POST", "/auth/revoke", { headers: { ...bearer(reader), ...form }, body: "token=" }, 400],
    ["POST", "/auth/revoke", { headers: { ...bearer(reader), ...form }, body: `token=${reader}` }, 200],
  ];
  for (const [method, target, sending, status] of calls) {
    const reply = await service.send(method, target, sending);
    const what = `${method} ${target} ${JSON.stringify(sending)}: ${reply.body}`;
    const found = problems(document, check, { method, target, sending, reply });
    expect({ what, status: reply.status, problems: found }).toEqual({ what, status, problems: [] });
    expect(described).toContain(codeOf(reply));
  }

  const read = document.paths["/flows"]?.["get"] as { responses: Record<string, { headers?: object }> };
  const fresh = await service.send("GET", "/flows", {
    headers: { ...bearer(admin), "if-none-match": `"${await rev()}"` },
  });
  expect(fresh.status).toBe(304);
  expect(Object.keys(read.responses["304"]?.headers ?? {}).map((name) => name.toLowerCase())).toContain("etag");
});

/** The document with the alternatives of variants as a keyword, which they are not for code generators. */
function withAlternatives(text: string): OpenApiDocument {
  return JSON.parse(text, (_key, value: { "x-anyOf"?: unknown } | null) => {
    const { "x-anyOf": anyOf } = value ?? {};
    return anyOf === undefined ? value : { anyOf };
  }) as OpenApiDocument;
}

/** The code of an error in the notation of docs/api.md; empty for other responses. */
function codeOf({ status, body }: Reply): string {
  if (status < 400 || body === "") {
    return "";
  }
  const { code, error } = JSON.parse(body) as { code?: string; error?: string };
  return `\`${code ?? error}\``;
}

type Exchange = { method: string; target: string; sending: Sending; reply: Reply };

/** Checks a valid request and its response against the document, and returns the differences. */
function problems(document: OpenApiDocument, check: SchemaCheck, { method, target, sending, reply }: Exchange) {
  const [path = ""] = target.split("?");
  const place = ["paths", path, method.toLowerCase()];
  const operation = document.paths[path]?.[method.toLowerCase()] as OperationObject;
  const status = reply.status in operation.responses ? String(reply.status) : "default";
  const { content = {} } = operation.responses[status] ?? {};
  const type = (reply.headers["content-type"] ?? "").replace(/;.*/, "");
  const found: (string | undefined)[] = [];
  if (reply.body === "") {
    found.push(Object.keys(content).length === 0 ? undefined : "the answer has no body");
  } else if (type in content) {
    const value = type === "application/json" ? reply.json() : reply.body;
    found.push(check([...place, "responses", status, "content", type, "schema"], value));
  } else {
    found.push(`the httpResponse is ${type}`);
  }
  const sent = sending.headers?.["content-type"] ?? "";
  if (reply.status < 300 && sending.body !== undefined) {
    const value: unknown =
      sent === json["content-type"]
        ? JSON.parse(String(sending.body))
        : Object.fromEntries(new URLSearchParams(String(sending.body)));
    found.push(check([...place, "requestBody", "content", sent, "schema"], value));
  }
  const described = [
    ...(operation.parameters ?? []).map(({ name }) => name.toLowerCase()),
    "authorization",
    "content-type",
  ];
  for (const name of reply.status < 300 ? Object.keys(sending.headers ?? {}) : []) {
    found.push(described.includes(name) ? undefined : `the header ${name} is not described`);
  }
  return found.filter((each) => each !== undefined);
}
