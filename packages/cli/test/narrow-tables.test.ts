import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  AuthService,
  DeploymentOutcome,
  FlowsService,
  RevisionCause,
  RevisionsService,
  RuntimeService,
  RuntimeState,
  SettingsService,
} from "@flowgate/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCommand } from "../../../test/cli/run-command.ts";

const long = "a long value, ".repeat(10).trim();
const wide = "とても長い名前".repeat(6);
const createTime = timestampFromMs(Date.UTC(2026, 2, 1, 9, 30));

const revisions = [long, wide, "short"].flatMap((text) =>
  [RevisionCause.DEPLOYMENT, RevisionCause.AUTOMATIC_UNDO].map((cause) => ({
    rev: "4fGx0aQzLongerThanShown",
    createTime,
    user: text,
    tokenName: text,
    cause,
    outcome: DeploymentOutcome.DEGRADED,
    nodeCount: 123_456,
    message: text,
    restoredRev: "8c1f52a09b7d3e64",
    pinned: true,
    active: true,
  })),
);

const nodes = [long, wide, "short"].map((text) => ({
  flowId: text,
  flowLabel: text,
  nodeId: text,
  nodeName: text,
  nodeType: text,
  status: { text, fill: "red", shape: "ring" },
  errors: 1_234_567,
  warnings: 1_234_567,
  messages: 1_234_567,
  lastMessageTime: createTime,
  lastError: { message: text, line: 3 },
  lastErrorTime: createTime,
}));

const disk = { freeBytes: 512 * 1024, totalBytes: 4 * 1024 * 1024 };

const routes = connectNodeAdapter({
  routes(router) {
    router.rpc(AuthService.method.getIdentity, () => ({ permissions: ["read"] }));
    router.service(RevisionsService, { listRevisions: () => ({ revisions }) });
    router.service(FlowsService, { getFlows: () => ({}) });
    router.service(SettingsService, { getSettings: () => ({ runtime: { state: RuntimeState.RUNNING } }) });
    router.service(RuntimeService, {
      getRuntime: () => ({ disk }),
      listNodeStatuses: () => ({
        nodes,
        flows: nodes.map(({ flowId, flowLabel, errors, warnings, messages, lastMessageTime }) => {
          return { flowId, flowLabel, errors, warnings, messages, lastMessageTime, failingNodes: 1_234_567 };
        }),
      }),
    });
  },
});

let server: ReturnType<typeof createServer>;
let env: { FLOWGATE_SERVER: string };

beforeAll(async () => {
  server = createServer(routes).listen(0, "127.0.0.1");
  await once(server, "listening");
  env = { FLOWGATE_SERVER: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
});
afterAll(() => void server?.close());

/** The columns that a terminal needs: characters of East Asian scripts take two. */
function columnsOf(line: string): number {
  return line.length + (line.match(/[\p{Script=Han}\p{Script=Hiragana}]/gu)?.length ?? 0);
}

async function linesOf(...args: string[]): Promise<string[]> {
  const { stdout, stderr } = await runCommand(args, { env });
  expect(stderr).toBe("");
  return stdout.trimEnd().split("\n");
}

/** Of the lines after the one that begins a table. */
function rowsAfter(lines: readonly string[], head: RegExp): readonly string[] {
  return lines.slice(lines.findIndex((line) => head.test(line)) + 1);
}

test.each([
  [["history"], revisions.length + 1],
  [["status", "--nodes"], 3 * (nodes.length + 1)],
])("%j fits 80 columns, one line for each row", async (args, rows) => {
  const lines = await linesOf(...args);
  const tooLong = lines.filter((line) => columnsOf(line) > 80);
  expect(tooLong).toEqual([]);
  const table = lines.slice(lines.findIndex((line) => /\bREV\b|^TAB/.test(line))).filter((line) => line !== "");
  expect(table).toHaveLength(rows);
});

test("what is too long is shortened, and what identifies a row is not", async () => {
  const [row = "", ...others] = rowsAfter(await linesOf("history"), /REV/);
  expect(row).toMatch(/^\* {2}4fGx0aQz {2}2026-03-01 \d\d:\d\d {2}a long.*… {2}.* {2}degraded {2}\[pinned\].*…$/);
  expect(others.at(-1)).toContain("  automatic u…  degraded  [pinned] s…");
  const [first = ""] = rowsAfter(await linesOf("status", "--nodes"), /STATUS/);
  expect(first).toMatch(/…  .*…  .*…  \[red ri…  1234567  1234567  1234567  2026-03-01$/);
});

test("--full shows all of it", async () => {
  expect((await linesOf("history", "--full")).join("\n")).toContain(`[pinned] ${long}\n`);
  expect((await linesOf("status", "--nodes", "--full")).join("\n")).toContain(`${long} (line 3)\n`);
});

test("a disk of less than a gibibyte has its own unit", async () => {
  expect(await linesOf("status")).toContainEqual(expect.stringMatching(/^Disk +512\.0 KiB of 4\.0 MiB free$/));
  Object.assign(disk, { freeBytes: 0, totalBytes: 0 });
  expect(await linesOf("status")).not.toContainEqual(expect.stringMatching(/^Disk/));
});
