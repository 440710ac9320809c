import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { preload } from "../../torture/preload.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { debugNode, endpoint, functionNode, type Node } from "./flow-builders.ts";
import { bearer } from "./rest.ts";
import { startService } from "./service.ts";
import { login, user } from "./users.ts";
import { type Watch, watch, watchProtocols } from "./watch-events.ts";

// A caller who may change one tab deploys as many credentials as possible, and texts in which searching for them takes long.

/** Each is cut to what the service accepts of it: 8 KiB of an error, 16 KiB of a debug message. */
const shout = `
  const { at } = msg.req.query;
  for (let n = 0; n < 8; n += 1) {
    node.error(at + " " + n + "x".repeat(16_000));
    node.warn(at + " " + n + "x\\\\x%78+...".repeat(1_600));
    node.send([null, { payload: at + " " + n + "x".repeat(16_000) }]);
  }
  msg.payload = "shouted";
`;

const nodes = Array.from({ length: 15 }, (_, at) => `n${at}`);

/** The same number of characters in each set. */
function credentialsOf(valueOf: (at: number) => string): object {
  const names = Array.from({ length: 1_000 }, (_, at) => at);
  return Object.fromEntries(
    nodes.map((id, of) => [
      id,
      Object.fromEntries(names.map((at) => [`c${at}`, valueOf(of * names.length + at).padStart(200, "x")])),
    ]),
  );
}

test("many credentials that begin alike do not block the service, whatever flows write", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const meter = join(folder.path, "event-loop");
  await using service = await startService({
    env: { EVENT_LOOP_METER: meter, ...preload("event-loop-meter") },
    config: {
      adminAuth: { users: [user("admin", "*"), user("author", "flows.write@tab:T")] },
      runtime: { freshProcess: "never" },
      log: { level: "fatal" },
    },
  });
  const admin = bearer(await login(service, { username: "admin" }));
  const author = bearer(await login(service, { username: "author", scope: "flows.write@tab:T" }));
  const [{ id: z }, input, code, output] = endpoint("/shout", shout) as [Node, Node, Node, Node];
  const tabNode = { id: z, type: "tab", label: "T" };
  const flows = [
    tabNode,
    input,
    { ...code, outputs: 2, wires: [[output.id], ["debug"]] },
    output,
    debugNode("debug", z),
    ...nodes.map((id) => functionNode(id, { z })),
  ];
  await deploy(service, { flows: [tabNode] }, "full", admin);
  await using events = watch(watchProtocols["gRPC"] as never, service.url, { kinds: ["node_error", "debug"] }, admin);
  await events.until(({ kind }) => kind === "snapshotEnd");

  /** Returns how long the event loop has computed at most without a pause, in ms of CPU time. */
  const attack = async (name: string, credentials: object): Promise<number> => {
    const before = await readStretches(meter);
    expect((await tryDeploy(service, { flows, credentials }, "full", author)).status).toBe(200);
    for (const at of [1, 2, 3]) {
      expect(await service.get(`/shout?at=${name}${at}`, admin)).toBe("shouted");
      await events.until(({ event }) => isShout(event, `${name}${at} 7`));
    }
    const texts = events.seen.filter(({ event }) => isShout(event, `${name}3 7`));
    expect(texts.map(({ event }) => JSON.stringify(event).includes("[redacted]"))).toContain(true);
    return Math.max(0, ...(await readStretches(meter)).slice(before.length));
  };
  const one = await attack(
    "one",
    credentialsOf(() => ""),
  );
  const many = await attack("many", credentialsOf(String));
  // Deployments of this size take some time on the event loop too.
  expect(many).toBeLessThan(2 * one + 50);

  const excess = { n0: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`c${at}`, `x${at}`])) };
  const refused = await tryDeploy(service, { flows, credentials: excess }, "full", author);
  expect([refused.status, refused.body]).toEqual([
    400,
    expect.stringContaining("credentials.n0: must have at most 1000 names"),
  ]);
});

function isShout(event: Watch["seen"][number]["event"], text: string): boolean {
  return event["nodeError"] !== undefined && JSON.stringify(event).includes(text);
}

/** How long the event loop has computed each time, where that was long. */
async function readStretches(file: string): Promise<number[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  return Array.from(text.matchAll(/ (\d+)$/gm), ([, ms]) => Number(ms));
}
