import { once } from "node:events";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { createDatabase } from "../postgres/postgres.ts";
import { missingBrowser, openBrowser } from "./browser.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { Editor, toolsUrl } from "./editor.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { json, send } from "./rest.ts";
import { eventually, startService } from "./service.ts";

const code = { z: "T", initialize: `setInterval(() => node.status({ text: "runs" }), 20)` };

test.skipIf(missingBrowser !== undefined)(
  "with several replicas, the editor of one on standby deploys, and shows what happens on the other",
  async () => {
    await using database = await createDatabase();
    const config = {
      store: database.url,
      credentialSecret: "a secret that all replicas share",
      runtime: { mode: "one" },
      nodeRed: { port: 0, editor: true },
    };
    await using runner = await startService({ config });
    await using standby = await startService({ config });
    await eventually(async () => expect(await readRuntime(standby)).toMatchObject({ state: "standby" }));
    await deploy(runner, { flows: [tab("T"), functionNode("f", code), functionNode("g", { z: "T", y: 200 })] });
    const url = toolsUrl(standby);

    // The events of the replica that runs the flows.
    const socket = new WebSocket(`${url.replace("http", "ws")}/comms`, { headers: { origin: url } });
    const { promise: shown, resolve } = Promise.withResolvers<void>();
    socket.on("message", (data: Buffer) => {
      if (data.toString().includes(`{"topic":"status/f","data":{"text":"runs"}}`)) {
        resolve();
      }
    });
    await once(socket, "open");
    socket.send(JSON.stringify({ subscribe: "status/#" }));
    await shown;
    socket.terminate();

    // What only the process of the flows knows is refused, and names the replica that runs it.
    const refused = await send(url, "POST", "/inject/f", { headers: json, body: "{}" });
    expect(refused.json()).toMatchObject({ code: "no_runtime" });
    expect(refused.body).toContain(String(runner.port));

    await using browser = await openBrowser();
    await using editor = await Editor.open(browser, url);
    await editor.untilLoaded();
    await expect.poll(() => editor.node("f").locator(".red-ui-flow-node-status-label").textContent()).toBe("runs");
    await editor.edit("g", async (dialog) => dialog.locator("#node-input-name").fill("deployed here"));
    const { rev } = await editor.deploy();
    await eventually(async () => {
      expect((await runner.send("GET", `/revisions/${rev}`)).json()).toMatchObject({ outcome: "running" });
    });
  },
);
