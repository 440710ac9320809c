import { afterAll, beforeAll, expect, test } from "vitest";
import { messageFd } from "../../packages/runtime/src/messages.ts";
import { deploy } from "./deploy.ts";
import { debugNode, endpoint, functionNode, type Node } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";
import { type Seen, type Watch, watch, watchProtocols } from "./watch-events.ts";

const gRPC = watchProtocols["gRPC"] as (typeof watchProtocols)[string];

const total = 20_000;

/** Code that does something very often, in small steps, so that the event loop is not blocked. */
function often(code: string): string {
  return `for (let at = 1; at <= ${total}; at++) {
    ${code}
    if (at % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }`;
}

/** Writes errors past the code that limits them. */
const forge = `const host = util.inspect.constructor("return process")();
  const { writeSync } = host.getBuiltinModule("fs");
  for (let frame = 0; frame < ${total / 100}; frame++) {
    const events = Array.from({ length: 100 }, (_, at) =>
      ({ kind: "error", nodeId: "forged", level: "error", message: frame + " " + at, count: 1 }));
    for (let rest = Buffer.from(JSON.stringify({ kind: "nodes", events }) + "\\n"); rest.length > 0;) {
      try { rest = rest.subarray(writeSync(${messageFd}, rest)); } catch (error) {
        if (error.code !== "EAGAIN") throw error;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  }`;

const debug = debugNode("debug", "tab of /messages");

const flows: Node[] = [
  ...endpoint("/warnings", often(`node.warn(("warning " + at).padEnd(1000));`)),
  ...endpoint("/same", often(`node.error("the same");`)),
  ...endpoint("/statuses", often(`node.status({ text: "status " + at });`)),
  ...endpoint("/messages", often(`node.send([null, { payload: at }]);`)),
  ...endpoint("/log", often(`node.log(("entry " + at).padEnd(1000));`)),
  ...endpoint("/forge", forge),
  debug,
  functionNode("unwired", { z: "tab of /forge" }),
].map((node) =>
  node.id === "/messages function" ? { ...node, outputs: 2, wires: [["/messages out"], ["debug"]] } : node,
);

let service: Service;
beforeAll(async () => {
  service = await startService({ config: { live: { journal: { size: 100 } } } });
  await deploy(service, { flows });
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function open(kind: string): Promise<Watch> {
  const events = watch(gRPC, service.url, { kinds: [kind] });
  await events.until(({ kind: first }) => first === "snapshotEnd");
  return events;
}

/** How often something happened, according to the events, and how often of that no event tells. */
function count(seen: readonly Seen[], kind: string, matches: (value: Record<string, unknown>) => boolean = () => true) {
  let shown = 0;
  let dropped = 0;
  let events = 0;
  for (const { kind: each, event } of seen) {
    const value = event[each] as { readonly count?: number; readonly kinds?: Readonly<Record<string, number>> };
    if (each === "dropped") {
      dropped += value.kinds?.[kind] ?? 0;
    } else if (each === kind && matches(value)) {
      shown += value.count ?? 1;
      events += 1;
    }
  }
  return { shown, dropped, events };
}

test.each([
  ["/warnings", "node_error", "nodeError"],
  ["/messages", "debug", "debug"],
  ["/log", "log", "log"],
  ["/forge", "node_error", "nodeError"],
])("of 20,000 events that GET %s causes, each is shown or counted", async (path, kind, name) => {
  await using events = await open(kind);
  await service.get(path);
  const isOwn = ({ message = "" }: Record<string, unknown>): boolean => !String(message).endsWith("were dropped");
  await eventually(async () => {
    const { shown, dropped } = count(events.seen, name, isOwn);
    expect(shown + dropped).toBe(total);
  });
  const { dropped } = count(events.seen, name, isOwn);
  expect(dropped).toBeGreaterThan(total / 2);
});

test("repetitions of an error are counted, and are few events", async () => {
  await using events = await open("node_error");
  await service.get("/same");
  await eventually(async () => {
    expect(count(events.seen, "nodeError").shown).toBe(total);
  });
  expect(count(events.seen, "nodeError").events).toBeLessThan(1_000);
});

test("of many statuses, the last one is shown", async () => {
  await using events = await open("node_status");
  await service.get("/statuses");
  await events.until(({ event }) => JSON.stringify(event).includes(`status ${total}"`));
  expect(count(events.seen, "nodeStatus").events).toBeLessThan(total / 10);
});

test("each message is counted, and the journal has little of the floods", async () => {
  await eventually(async () => {
    const reply = await service.send("GET", "/runtime/nodes?node=debug");
    expect(reply.json()).toMatchObject({ nodes: [{ nodeId: "debug", messages: total }] });
  });
  expect((await service.send("GET", "/runtime")).json()).toMatchObject({ runtime: { state: "running" } });
  let bytes = 0;
  let pageToken: string | undefined = "";
  while (pageToken !== undefined) {
    const reply = await service.send("GET", `/logs?pageSize=1000&pageToken=${pageToken}`);
    bytes += reply.body.length;
    ({ nextPageToken: pageToken } = reply.json() as { nextPageToken?: string });
  }
  // The warnings and entries alone are 40 MB of text, which the journal could have.
  expect(bytes).toBeLessThan(8 * 1024 * 1024);
});
