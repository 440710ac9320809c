import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mainPath } from "../cli/run-cli.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { startService, withoutRuntime } from "./service.ts";

test("SIGUSR1 does not open a debugger, SIGHUP without changes reloads nothing, and both do no harm", async () => {
  await using service = await startService({ config: withoutRuntime, ownProcess: true });
  process.kill(service.pid, "SIGUSR1");
  expect((await service.send("GET", "/healthz")).status).toBe(200);
  process.kill(service.pid, "SIGHUP");
  await service.untilLogged(
    /"level":"info".*"msg":"the configuration was read again: the users in force are unchanged/,
  );
  expect((await service.send("GET", "/healthz")).status).toBe(200);
  expect(await service.stop()).toBe(0);
  expect(service.log()).not.toContain("Debugger");
});

test("the service stops even if its log is no longer read", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-signals-"));
  const service = spawn(process.execPath, [mainPath, "--port", "0", "--runtime-port", "0", "--data-dir", dataDir], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  try {
    let head = "";
    while (!head.includes("listens on http")) {
      head += String(await once(service.stdout, "data"));
    }
    const url = /http:\/\/[\d.:]+/.exec(head)?.[0] ?? "";
    service.stdout.pause();
    // Each deployment logs a line, which is long if it has the long name of a missing type.
    const flows = JSON.stringify([{ id: "a", type: "x".repeat(4000), x: 1, y: 1, wires: [] }]);
    for (let at = 0; at < 60; at += 1) {
      const reply = await fetch(`${url}/flows`, {
        method: "POST",
        body: flows,
        headers: { "content-type": "application/json", "service-deployment-type": "nodes" },
      });
      expect(reply.status).toBe(204);
    }
    const exit = once(service, "exit");
    service.kill("SIGTERM");
    expect(await exit).toEqual([0, null]);
  } finally {
    service.kill("SIGKILL");
    await rm(dataDir, { recursive: true, force: true });
  }
});

// Ctrl-C in a terminal signals all processes of the foreground, and npm passes its signal on.
test.each<[program: string, command: readonly [string, ...string[]], repeats: boolean]>([
  ["the program, signalled twice", [process.execPath, mainPath], true],
  ["npm start", ["npm", "start", "--silent", "--"], false],
])("Ctrl-C lets calls in flight finish: %s", async (_, command, repeats) => {
  await using service = await startService({ command: ["setsid", ...command], config: withoutRuntime });
  using raw = await openRaw(service.port);
  raw.write("POST /flows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n");
  raw.write("Expect: 100-continue\r\n\r\n");
  await raw.until(/100 Continue/);
  process.kill(-service.pid, "SIGINT");
  await service.untilLogged(/draining: no new connections/);
  if (repeats) {
    process.kill(-service.pid, "SIGINT");
  }
  raw.write("[]");
  await raw.until(/204 No Content/);
  expect(await service.exited).toBe(0);
});
