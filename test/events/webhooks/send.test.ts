import dns, { type LookupAddress } from "node:dns";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { sendWebhook } from "../../../src/events/webhooks/send.ts";
import { createTargetPolicy, type TargetAccess } from "../../../src/events/webhooks/target-policy.ts";
import { openReceiver } from "./receiver.ts";

const loopback: TargetAccess = { allow: ["127.0.0.0/8"], deny: [] };

function send(url: string, access: TargetAccess = loopback, timeoutMs = 10_000, { signal } = new AbortController()) {
  const options = { policy: createTargetPolicy(access), timeoutMs, signal };
  return sendWebhook({ url: new URL(url), headers: { "webhook-id": "1" }, body: `{"a":"é"}` }, options);
}

/** The message of the error. */
async function failure(...parameters: Parameters<typeof send>): Promise<string> {
  return send(...parameters).then(
    ({ status }) => `it responded with ${status}`,
    (error: unknown) => (error as Error).message,
  );
}

test("a request has the headers and the body", async () => {
  await using receiver = await openReceiver();
  expect((await send(`http://127.0.0.1:${receiver.port}/path?query=1`)).status).toBe(204);
  expect(receiver.received).toMatchObject([
    {
      path: "/path?query=1",
      body: `{"a":"é"}`,
      headers: { "webhook-id": "1", "content-type": "application/json", "content-length": "10" },
    },
  ]);
});

test("a name is connected to if an entry lists its address, or the name", async () => {
  await using receiver = await openReceiver();
  const url = `http://localhost:${receiver.port}/`;
  expect((await send(url)).status).toBe(204);
  expect((await send(url, { allow: ["localhost"], deny: ["::1"] })).status).toBe(204);
});

test.each([
  "127.0.0.1",
  "2130706433",
  "0x7f000001",
  "0177.0.0.1",
  "127.1",
  "0.0.0.0",
  "[::1]",
  "[::]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "localhost",
])("by default, %s is not connected to", async (host) => {
  await using receiver = await openReceiver();
  for (const allow of [undefined, ["*"], [`*:${receiver.port}`]]) {
    expect(await failure(`http://${host}:${receiver.port}/`, { allow, deny: [] })).toMatch(/: not a public address/);
  }
  expect(receiver.received).toEqual([]);
});

test.each([301, 302, 303, 307, 308])("a redirect (%i) is not followed", async (status) => {
  await using receiver = await openReceiver();
  await using other = await openReceiver();
  for (const location of ["http://169.254.169.254/latest/meta-data", `http://127.0.0.1:${other.port}/`]) {
    receiver.respond = (_, response) => void response.writeHead(status, { location }).end();
    expect((await send(`http://127.0.0.1:${receiver.port}/`)).status).toBe(status);
  }
  expect(receiver.received).toHaveLength(2);
  expect(other.received).toEqual([]);
});

test("a receiver that does not respond is given up", async () => {
  await using receiver = await openReceiver();
  receiver.respond = () => {};
  expect(await failure(`http://127.0.0.1:${receiver.port}/`, loopback, 50)).toBe("no response within 0.05 s");
});

test("a response without end is not read to its end", async () => {
  await using receiver = await openReceiver();
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  receiver.respond = (_, response) => {
    response.writeHead(200);
    const write = (): void => {
      while (response.write("x".repeat(64 * 1024))) {}
    };
    response.on("drain", write).on("close", resolve);
    write();
  };
  expect((await send(`http://127.0.0.1:${receiver.port}/`)).status).toBe(200);
  await closed;
});

test("the number of seconds in Retry-After is returned", async () => {
  await using receiver = await openReceiver();
  const read = async (value: string) => {
    receiver.respond = (_, response) => void response.writeHead(503, { "retry-after": value }).end();
    return (await send(`http://127.0.0.1:${receiver.port}/`)).retryAfterMs;
  };
  expect([await read("7"), await read("Wed, 21 Oct 2015 07:28:00 GMT"), await read("-1")]).toEqual([
    7_000,
    undefined,
    undefined,
  ]);
});

test.each<[string, (socket: Socket) => void, RegExp]>([
  ["closes the connection", (socket) => socket.destroy(), /ECONNRESET|socket hang up|closed without a response/],
  ["ends it after a part of the head", (socket) => socket.end("HTTP/1.1 200"), /Parse Error|hang up/],
  ["speaks another protocol", (socket) => socket.end("220 mail\r\n\r\n"), /Parse Error/],
])("a receiver that %s is an error", async (_, onData, expected) => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => onData(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  expect(await failure(`http://127.0.0.1:${port}/secret?secret=1`)).toMatch(expected);
  server.close();
  expect(await failure(`http://127.0.0.1:${port}/secret?secret=1`)).not.toContain("secret");
});

test("one name is looked up at a time, and none whose request has ended", async () => {
  type End = (error: Error | null, addresses: LookupAddress[]) => void;
  const lookups: { readonly name: string; readonly end: End }[] = [];
  // A name server that responds when the test says so.
  const lookup = ((name: string, _options: unknown, end: End) => void lookups.push({ name, end })) as typeof dns.lookup;
  using stack = new DisposableStack();
  stack.defer(() => syncBuiltinESMExports());
  stack.use(vi.spyOn(dns, "lookup").mockImplementation(lookup));
  syncBuiltinESMExports();
  const controller = new AbortController();
  const ended = ["slow", "ended"].map((name) => failure(`http://${name}.example/`, loopback, 60_000, controller));
  const next = failure("http://next.example/", loopback, 60_000);
  await vi.waitUntil(() => lookups.length > 0);
  controller.abort();
  await Promise.all(ended);
  expect(lookups.map(({ name }) => name)).toEqual(["slow.example"]);
  const found: LookupAddress[] = [{ address: "10.0.0.1", family: 4 }];
  lookups[0]?.end(null, found);
  await vi.waitUntil(() => lookups.length > 1);
  lookups[1]?.end(null, found);
  expect(await next).toMatch(/^next\.example \(10\.0\.0\.1\): not a public address/);
  expect(lookups.map(({ name }) => name)).toEqual(["slow.example", "next.example"]);
});
