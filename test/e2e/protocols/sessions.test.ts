import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import type { Transport } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { access } from "../../../gen/flowgate/v1/access_pb.ts";
import { services } from "../../../src/services/api.ts";
import { freePort } from "../../free-port.ts";
import { CookieBrowser } from "../cookie-browser.ts";
import { rpcProtocols } from "../rpc.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { passwordOf, user } from "../users.ts";
import { callRest, callRpc } from "./any-call.ts";

// The matrix of all operations that a session authenticates. The operations are those of the contract. The headers are checked before the
// message of a protocol is read: all are sent over REST and gRPC, and none over all protocols.

const operations = services
  .flatMap((service) => service.methods)
  .filter((method) => getOption(method, access).rule.case !== "public");
const isChange = ({ idempotency }: DescMethod) => idempotency !== MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;

let service: Service;
let cookie: string;

beforeAll(async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const adminAuth = { signIn: { url }, users: [user("admin", "*")] };
  service = await startService({ port, config: { ...withoutRuntime, adminAuth } });
  const browser = new CookieBrowser();
  await browser.submit(await browser.visit(`${url}/sign-in`), { username: "admin", password: passwordOf("admin") });
  cookie = `flowgate-session=${browser.cookies.get("flowgate-session")}`;
});
afterAll(() => service?.[Symbol.asyncDispose]());

const transports: Record<string, Transport> = {};

type Headers = Readonly<Record<string, string>>;

/** Return the reason of an error; undefined: there is none. */
const protocols: Readonly<Record<string, (method: DescMethod, headers: Headers) => Promise<string | undefined>>> = {
  async REST(method, headers) {
    const { ok, status, text } = await callRest(service.url, method, headers);
    if (ok) {
      return undefined;
    }
    return status === 401 ? "unauthorized" : (JSON.parse(text) as { code?: string }).code;
  },
  ...Object.fromEntries(
    Object.entries(rpcProtocols).map(([name, createTransport]) => [
      name,
      async (method: DescMethod, headers: Headers) => {
        transports[name] ??= createTransport(service.url);
        const error = await callRpc(transports[name], method, headers);
        return error?.findDetails(ErrorInfoSchema)[0]?.reason ?? error?.message;
      },
    ]),
  ),
};

const header = { "x-csrf-protection": "1" };

test.each<[string, () => Headers, (method: DescMethod) => boolean, string[]?]>([
  ["without the header, changes are refused", () => ({}), isChange, Object.keys(protocols)],
  ["with the header, nothing is", () => header, () => false],
  ["with the header and this origin, nothing is", () => ({ ...header, origin: service.url }), () => false],
  [
    "with the header and another origin, everything is",
    () => ({ ...header, origin: "http://evil.example" }),
    () => true,
  ],
  [
    "with the header and another site, everything is",
    () => ({ ...header, "sec-fetch-site": "cross-site" }),
    () => true,
  ],
  [
    "with the header and the same site, everything is",
    () => ({ ...header, "sec-fetch-site": "same-site" }),
    () => true,
  ],
])("%s", async (_name, headers, isRefused, over = ["REST", "gRPC"]) => {
  const outcomes: string[] = [];
  const expected: string[] = [];
  for (const protocol of over) {
    // The session stays valid: the calls have empty messages, which name no token.
    for (const method of operations) {
      const reason = await protocols[protocol]?.(method, { cookie, ...headers() });
      const name = `${protocol} ${method.parent.name}.${method.name}`;
      outcomes.push(`${name}: ${reason === "foreign_origin" || reason === "unauthorized" ? reason : "admitted"}`);
      expected.push(`${name}: ${isRefused(method) ? "foreign_origin" : "admitted"}`);
    }
  }
  expect(outcomes).toEqual(expected);
  expect(operations.filter(isChange).length).toBeGreaterThan(15);
  const identity = await service.send("GET", "/auth/identity", { headers: { cookie } });
  expect(identity.status).toBe(200);
});
