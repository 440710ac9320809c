import { readdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { escape } from "../../packages/runtime/test/flow-builders.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { endpoint, functionNode, tab } from "./flow-builders.ts";
import { isMissing } from "./program.ts";
import { json } from "./rest.ts";
import { eventually, startService } from "./service.ts";
import { canMount, createDisk } from "../small-disk.ts";

/** Writes whenever there is space. */
const filling = [
  tab("T"),
  functionNode("f", {
    z: "T",
    initialize: `${escape}
      const fs = host.getBuiltinModule("fs");
      const file = fs.openSync("fill", "a");
      const data = [2 ** 20, 4_096, 1].map((size) => Buffer.alloc(size, 1));
      host.getBuiltinModule("timers").setInterval(() => {
        for (const each of data) try { for (;;) fs.writeSync(file, each); } catch {}
      }, 1);`,
  }),
];

const harmless = endpoint("/hello", `msg.payload = "hello"`);

test.skipIf(isMissing("full disks (mount)", canMount()))(
  "while a flow fills the disk, flows are read, corrected and restarted",
  async () => {
    await using disk = await createDisk(64);
    const isFull = async () => expect((await statfs(disk.path)).bavail).toBe(0);
    await using service = await startService({ dataDir: disk.path });
    await deploy(service, { flows: filling });
    await eventually(isFull);
    for (let count = 0; count < 5; count += 1) {
      expect((await service.send("GET", "/flows")).status).toBe(200);
      // Larger than the space that a deployment leaves behind, and without the end of the code that fills the disk.
      await deploy(service, { flows: [...filling, tab(`T${count}`)] }, "nodes");
      await isFull();
    }
    const rev = await deploy(service, { flows: harmless });
    expect(await service.get("/hello")).toBe("hello");
    await isFull();
    expect((await service.send("POST", "/runtime:restart", { headers: json, body: "{}" })).json()).toMatchObject({
      rev,
      outcome: "running",
    });
    await service.kill9();
    await using again = await startService({ dataDir: disk.path });
    await eventually(async () => expect((await readRuntime(again)).state).toBe("running"));
    expect((await again.send("GET", "/flows")).headers["etag"]).toBe(`"${rev}"`);
    await deploy(again, { flows: [...harmless, tab("T")] });
    expect(await readdir(join(disk.path, "runtime"))).toContain("fill");
    const cleared = await again.send("POST", "/runtime:restart", { headers: json, body: '{"clearFiles":true}' });
    expect(cleared.json()).toMatchObject({ outcome: "running" });
    expect(await readdir(join(disk.path, "runtime"))).toEqual([]);
    expect((await statfs(disk.path)).bavail).toBeGreaterThan(0);
    expect(await again.get("/hello")).toBe("hello");
  },
);
