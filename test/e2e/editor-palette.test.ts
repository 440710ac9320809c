import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { openNpmRegistry } from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, paletteTemplateOf } from "../../packages/runtime/test/modules/write-modules.ts";
import { missingBrowser, openBrowser } from "./browser.ts";
import { Editor } from "./editor.ts";
import { bearer, json } from "./rest.ts";
import { startToolService } from "./tools.ts";
import { login, user } from "./users.ts";

const withNode = (type: string) => ({
  manifest: { "node-red": { nodes: { all: "nodes.js" } } },
  files: { "nodes.js": nodesOf([type]), "nodes.html": paletteTemplateOf(type) },
});

const packages = [
  { name: "contrib-offered", version: "1.0.0", ...withNode("offered") },
  { name: "contrib-old", version: "1.0.0", ...withNode("old") },
  { name: "contrib-old", version: "1.1.0", ...withNode("renewed") },
];

test.skipIf(missingBrowser !== undefined)(
  "modules are installed, updated, disabled and removed by the buttons of the editor's palette manager",
  async () => {
    await using registry = await openNpmRegistry(() => packages);
    await using catalogue = await openCatalogue([
      { id: "contrib-offered", version: "1.0.0", types: ["offered"] },
      { id: "contrib-old", version: "1.1.0", types: ["old"] },
      { id: "contrib-unpublished", version: "1.0.0" },
    ]);
    await using service = await startToolService({
      config: {
        adminAuth: { users: [user("admin", "*")] },
        modules: { registry: registry.url },
        nodeRed: { port: 0, editor: true, catalogue: catalogue.url },
        runtime: { freshProcess: "never" },
      },
    });
    const headers = { ...bearer(await login(service, { username: "admin" })), ...json };
    const versions = async (): Promise<Record<string, string>> => {
      const { modules } = (await service.send("GET", "/modules", { headers })).json() as {
        modules: { name: string; version: string }[];
      };
      return Object.fromEntries(modules.map(({ name, version }) => [name, version]));
    };
    const body = JSON.stringify({ name: "contrib-old", version: "1.0.0" });
    expect((await service.send("POST", "/modules", { headers, body })).status).toBeLessThan(300);

    await using browser = await openBrowser();
    await using editor = await Editor.open(browser, service.toolsUrl);
    await editor.login("admin");
    await editor.paletteNode("old").waitFor();

    // What the catalogue offers, and the registry does not have.
    await editor.openPaletteManager("install");
    await editor.pressModuleButton("contrib-unpublished", "install");
    await editor.notification("the registry has no package").locator("button", { hasText: "Close" }).click();

    await editor.pressModuleButton("contrib-offered", "install");
    await editor.paletteNode("offered").waitFor({ state: "attached" });
    expect(await versions()).toEqual({ "contrib-offered": "1.0.0", "contrib-old": "1.0.0" });
    await editor.moduleButton("contrib-offered", "installed").waitFor();
    await editor.closeDialog();
    const added = await editor.drag("offered", 300, 200);
    await editor.deploy();

    // A module whose nodes are used has no button to remove it.
    await editor.openPaletteManager("nodes");
    await editor.moduleButton("contrib-offered", "in use").waitFor();
    expect(await editor.moduleButton("contrib-offered", "remove").count()).toBe(0);
    await editor.closeDialog();
    await editor.node(added).locator(".red-ui-flow-node").first().click();
    await editor.page.keyboard.press("Delete");
    await editor.deploy();

    await editor.openPaletteManager("nodes");
    await editor.moduleButton("contrib-offered", "disable all").click();
    await editor.paletteNode("offered").waitFor({ state: "hidden" });
    await editor.moduleButton("contrib-offered", "enable all").click();
    await editor.paletteNode("offered").waitFor({ state: "attached" });

    await editor.pressModuleButton("contrib-old", "update to 1.1.0");
    await expect.poll(versions).toEqual({ "contrib-offered": "1.0.0", "contrib-old": "1.1.0" });

    await editor.pressModuleButton("contrib-offered", "remove");
    await editor.paletteNode("offered").waitFor({ state: "detached" });
    await expect.poll(versions).toEqual({ "contrib-old": "1.1.0" });
    await editor.closeDialog();
    expect(editor.complaints.filter((each) => !/40[14] \(/.test(each))).toEqual([]);
  },
);

type Offer = { readonly id: string; readonly version: string; readonly types?: readonly string[] };

/** A list of modules on an origin of its own. */
async function openCatalogue(offers: readonly Offer[]): Promise<AsyncDisposable & { readonly url: string }> {
  const updated_at = new Date(0).toISOString();
  const modules = offers.map((offer) => ({ description: "for tests", updated_at, keywords: [], ...offer }));
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "application/json", "access-control-allow-origin": "*" });
    response.end(JSON.stringify({ name: "catalogue of tests", updated_at, modules }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/catalogue.json`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
