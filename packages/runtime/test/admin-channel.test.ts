import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { adminFd } from "../src/messages.ts";
import { callerHeaders, permissionOfNode } from "../src/node-permissions.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, functionNode, tab } from "./flow-builders.ts";

type Answer = { readonly status: number | undefined; readonly body: string };

async function send(
  runtime: OpenedRuntime,
  method: string,
  path: string,
  permissions = "",
  body = "",
): Promise<Answer> {
  const connection = runtime.connectAdmin();
  const outgoing = request({
    createConnection: () => connection,
    method,
    path,
    headers: { host: "flows", connection: "close", [callerHeaders.permissions]: permissions },
  });
  outgoing.end(body);
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return { status: response.statusCode, body: (await response.toArray()).join("") };
}

describe("the routes of nodes", () => {
  let runtime: OpenedRuntime;
  beforeAll(async () => {
    runtime = await runtimeUnderTest({ hasAdmin: true });
    await runtime.apply(revision(1, [tab("T"), { id: "d", type: "debug", z: "T", x: 1, y: 1, wires: [] }]), "full");
  });
  afterAll(() => runtime?.[Symbol.asyncDispose]());

  test("are answered with the permissions of the caller", async () => {
    expect(await send(runtime, "GET", "/udp-ports/1", "flows.read")).toEqual({ status: 200, body: "[]" });
    expect((await send(runtime, "GET", "/udp-ports/1")).status).toBe(401);
    expect((await send(runtime, "POST", "/debug/d/disable", "flows.read")).status).toBe(401);
    expect((await send(runtime, "POST", "/debug/d/disable", "flows.read flows.write")).status).toBe(201);
    expect(JSON.parse((await send(runtime, "GET", "/none", "flows.read")).body)).toMatchObject({ code: "not_found" });
  });

  test("are answered any number of times, and at the same time up to a number", async () => {
    for (let count = 0; count < 40; count += 1) {
      expect(await send(runtime, "GET", "/udp-ports/1", "flows.read")).toMatchObject({ status: 200 });
    }
    const open: Duplex[] = [];
    expect(() => {
      for (let count = 0; count <= 16; count += 1) {
        open.push(runtime.connectAdmin());
      }
    }).toThrow("16 requests wait for the flows already: try again later");
    const closed = open.map((connection) => new Promise((resolve) => connection.once("close", resolve)));
    open.forEach((connection) => connection.destroy());
    await Promise.all(closed);
    expect(await send(runtime, "GET", "/udp-ports/1", "flows.read")).toMatchObject({ status: 200 });
  });
});

test("without the option there are none", async () => {
  await using runtime = await runtimeUnderTest();
  await runtime.apply(revision(1, [tab("T")]), "full");
  expect(() => runtime.connectAdmin()).toThrow("the routes of nodes are not served: set nodeRed.port");
});

// The session begins with a SETTINGS frame. Each PING frame has to be acknowledged.
const attacks = [
  ["bytes that are no frames", `Buffer.alloc(100_000, "x")`, `Buffer.alloc(0)`],
  ["frames without an end", `Buffer.from("000000040000000000", "hex")`, `pings`],
] as const;

test.each(attacks)("a flow that writes %s loses the pipe only", async (_, first, others) => {
  await using runtime = await runtimeUnderTest({ hasAdmin: true, freshProcess: "never" });
  const code = `${escape} const { existsSync, writeFileSync, writeSync } = host.getBuiltinModule("fs");
    const pings = Buffer.alloc(17 * 1000, Buffer.from("0000080600000000000000000000000000", "hex"));
    let rest = ${first};
    const write = () => {
      try {
        while (rest.length > 0) { rest = rest.subarray(writeSync(${adminFd}, rest)); if (rest.length === 0) rest = ${others}; }
      } catch (error) {
        if (error.code === "EAGAIN") setTimeout(write, 1);
      }
    };
    // Not in a process that replaces this one: flows whose processes end again and again are not started.
    if (!existsSync("attacked")) {
      writeFileSync("attacked", "");
      setTimeout(write, 10);
    }`;
  const flows = [
    ...endpoint("/alive", `msg.payload = "alive"`),
    functionNode("f", { z: "tab of /alive", initialize: code }),
  ];
  await runtime.apply(revision(1, flows), "full");
  const connection = runtime.connectAdmin();
  await new Promise((resolve) => connection.once("close", resolve));
  expect(() => runtime.connectAdmin()).toThrow("the runtime process serves no requests any more");
  // Its process may be replaced, since it is not trusted any more.
  await vi.waitFor(async () => expect(await runtime.get("/alive")).toBe("alive"), { timeout: 60_000 });
});

test.each([
  ["", undefined],
  ["inject.write", "runtime.inject"],
  ["nodes.read", "modules.read"],
  ["flows.write", "flows.write"],
  ["udp-ports.read", "flows.read"],
  ["read", "flows.read"],
  ["serial.write", "flows.write"],
  ["anything", "flows.write"],
  ["thread", "flows.write"],
  ["tokens.read", "flows.read"],
])("%j of a node stands for %s", (name, expected) => {
  expect(permissionOfNode(name)).toBe(expected);
});
