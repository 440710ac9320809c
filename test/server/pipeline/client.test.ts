import { once } from "node:events";
import http from "node:http";
import { json } from "node:stream/consumers";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { peerKey } from "../../../src/auth/caller.ts";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { eventually } from "../../e2e/service.ts";
import { createTrust, parseClientAddress } from "../../../src/server/pipeline/client.ts";

test.each([
  [["10.0.0.0/8"], "10.255.0.1", true],
  [["10.0.0.0/8"], "11.0.0.1", false],
  [["10.0.0.0/8"], "::ffff:10.0.0.1", true],
  [["10.0.0.1"], "10.0.0.1", true],
  [["10.0.0.1"], "10.0.0.2", false],
  [["fd00::/8"], "fd12::1", true],
  [["fd00::/8"], "fe80::1", false],
  [["fe80::/10"], "fe80::1%eth0", true],
  [["::1", "10.0.0.1"], "::1", true],
  [[], "127.0.0.1", false],
  [["10.0.0.0/8"], "10.0.0.1, 10.0.0.2", false],
  [["10.0.0.0/8"], "", false],
  [["10.0.0.0/8"], undefined, false],
])("whether %j trusts %j: %j", (subnets, address, expected) => {
  expect(createTrust(subnets)(address)).toBe(expected);
});

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["192.0.2.1:4711", "192.0.2.1"],
  ["2001:db8::1", "2001:db8::1"],
  ["[2001:db8::1]", "2001:db8::1"],
  ["[2001:db8::1]:4711", "2001:db8::1"],
  ["unknown", "10.0.0.1"],
  ["_hidden", "10.0.0.1"],
  ["", "10.0.0.1"],
])("a proxy that forwards %j means %j", (ip, expected) => {
  expect(parseClientAddress(ip, "10.0.0.1")).toBe(expected);
});

/** The client address and scheme that a service on 127.0.0.1 derives, and the client that it logs. */
async function seen(localAddress: string, headers: Record<string, string>) {
  const logged: string[] = [];
  await using server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({
      level: "debug",
      destination: { write: (line: string) => void logged.push((JSON.parse(line) as { client: string }).client) },
    }),
    routes: (router) =>
      void router.service(AuthService, {
        getLogin: (_request, { url, values }) => ({ type: `${values.get(peerKey).address} ${url.split(":")[0]}` }),
      }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    trustedProxies: ["127.0.0.1", "10.0.0.0/8"],
  });
  const request = http.get(`${server.url}/auth/login`, { localAddress, headers, agent: false });
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  const { type } = (await json(response)) as { type: string };
  await eventually(async () => expect(logged).toHaveLength(1));
  return `${type} ${logged.join()}`;
}

test("forwarded headers are used only from trusted proxies", async () => {
  const headers = { "x-forwarded-for": "198.51.100.1, 192.0.2.1, 10.0.0.1", "x-forwarded-proto": "https" };
  expect(await seen("127.0.0.1", headers)).toBe("192.0.2.1 https 192.0.2.1");
  expect(await seen("127.0.0.2", headers)).toBe("127.0.0.2 http 127.0.0.2");
  expect(await seen("127.0.0.1", {})).toBe("127.0.0.1 http 127.0.0.1");
});
