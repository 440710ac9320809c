import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { formatFrame } from "../src/channel.ts";
import { defaultFlowSettings } from "../src/flow-settings.ts";
import { type Initialize, messageFd } from "../src/messages.ts";
import { childProgram } from "../../../test/built-programs.ts";
import { fixture, untilExited } from "./builders.ts";
import { block, functionNode, tab } from "./flow-builders.ts";

const announce = `node.warn("the flows are running");`;

async function withParent(
  initialize: string,
  check: (parent: ChildProcessByStdio<null, Readable, null>, childPid: number) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-parent-"));
  const flows: FlowNode[] = [tab("T"), functionNode("f", { z: "T", initialize })];
  const program = fileURLToPath(fixture("parent-process"));
  const parent = spawn(
    process.execPath,
    [program, join(directory, "runtime"), JSON.stringify(flows), childProgram.href],
    {
      // Without setpriv, by which the kernel would end the child.
      env: { ...process.env, PATH: "/nonexistent" },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  try {
    const [line] = (await once(createInterface(parent.stdout), "line")) as [string];
    await check(parent, Number(line));
  } finally {
    parent.kill("SIGKILL");
    await rm(directory, { recursive: true });
  }
}

test.for([
  ["is idle", announce],
  ["blocks its event loop", `${announce} setTimeout(() => { ${block} }, 50);`],
  ["blocks its event loop while it starts", `${announce} ${block}`],
] as const)("a child that %s exits when its parent is killed", async ([, initialize]) => {
  await withParent(initialize, async (parent, childPid) => {
    parent.kill("SIGKILL");
    expect(await untilExited(childPid)).toBe(true);
  });
});

test("a parent that exits gracefully stops its child", async () => {
  await withParent(announce, async (parent, childPid) => {
    parent.kill("SIGTERM");
    const [code] = await once(parent, "exit");
    expect(code).toBe(0);
    expect(await untilExited(childPid)).toBe(true);
  });
});

test("a child whose parent is another process than the one that has started it exits", async () => {
  const program = fileURLToPath(new URL("../src/child/main.ts", import.meta.url));
  const flags = ["--permission", "--allow-fs-read=*", "--allow-worker", "--allow-net"];
  const child = spawn(process.execPath, [...flags, program], {
    stdio: ["ignore", "pipe", "ignore", "pipe", "pipe"],
    detached: true,
  });
  const message: Initialize = {
    kind: "initialize",
    parentPid: process.ppid,
    userDir: tmpdir(),
    nodeCloseTimeoutMs: 0,
    logLevel: "fatal",
    settings: defaultFlowSettings,
    worker: false,
    network: { deny: [] },
  };
  const channel = child.stdio[messageFd] as Writable;
  for (const piece of formatFrame(message, new Uint8Array())) {
    channel.write(piece);
  }
  expect(await once(child, "exit")).toEqual([null, "SIGKILL"]);
});
