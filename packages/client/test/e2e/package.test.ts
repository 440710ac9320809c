import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { missingBrowser, openBrowser } from "../../../../test/e2e/browser.ts";
import { buildPackages } from "../../../../test/packaging/build.ts";
import { findNode } from "../../../../test/packaging/nodes.ts";
import { openStage, root, type Stage } from "../../../../test/packaging/stage.ts";
import { SettingsService } from "../../src/index.ts";

const node20 = await findNode(20);
let stage: Stage;

/** The packed client with the transport of its README, and the README's program. */
beforeAll(async () => {
  stage = await openStage();
  const { "@flowgate/client": archive = "" } = (await buildPackages()).archives;
  const readme = await readFile(join(import.meta.dirname, "../../README.md"), "utf8");
  const [, program = ""] = /^```js file=settings.js\n(.*?)^```$/ms.exec(readme) ?? [];
  await writeFile(join(stage.empty, "settings.js"), program);
  await writeFile(join(stage.empty, "package.json"), JSON.stringify({ type: "module", private: true }));
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
    devDependencies: Record<string, string>;
  };
  const versions = { ...manifest.dependencies, ...manifest.devDependencies };
  const peers = ["@connectrpc/connect-web", "@connectrpc/connect", "@bufbuild/protobuf"];
  await stage.run("npm", [
    "install",
    "--prefer-offline",
    "--no-audit",
    ...peers.map((name) => `${name}@${versions[name]}`),
    archive,
  ]);
});
afterAll(() => stage[Symbol.asyncDispose]());

type Server = AsyncDisposable & {
  readonly url: string;
  /** Calls that reached it. */
  calls: number;
};

/** A service that is unavailable for the first call; `page` answers what is no RPC. */
async function serve(page: (request: IncomingMessage, response: ServerResponse) => void = () => {}): Promise<Server> {
  const adapter = connectNodeAdapter({
    routes: (router) =>
      router.rpc(SettingsService.method.getSettings, () => {
        opened.calls += 1;
        if (opened.calls === 1) {
          throw new ConnectError("restarting", Code.Unavailable);
        }
        return { version: "1.2.3" };
      }),
  });
  const server = createServer((request, response) =>
    request.url?.startsWith("/flowgate.v1.") ? adapter(request, response) : page(request, response),
  ).listen(0, "127.0.0.1");
  await once(server, "listening");
  const opened: Server = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return opened;
}

test("is four packages with its transport", async () => {
  const installed = join(stage.empty, "node_modules/.package-lock.json");
  const { packages } = JSON.parse(await readFile(installed, "utf8")) as { packages: object };
  expect(Object.keys(packages)).toHaveLength(4);
});

test.skipIf(node20.missing !== undefined)("retries a call on Node 20", async () => {
  await using server = await serve();
  await writeFile(
    join(stage.empty, "main.js"),
    `import { readVersion } from "./settings.js"; console.log(await readVersion("${server.url}"));`,
  );
  const { stdout } = await promisify(execFile)(node20.path, ["main.js"], { cwd: stage.empty });
  expect(stdout).toBe("1.2.3\n");
  expect(server.calls).toBe(2);
});

test.skipIf(missingBrowser !== undefined)("retries a call in a browser, bundled by Vite", async () => {
  await writeFile(
    join(stage.empty, "index.html"),
    `<!doctype html><title>Version</title><output></output>
     <script type="module">
       import { readVersion } from "./settings.js";
       const output = document.querySelector("output");
       readVersion(location.origin).then((version) => (output.value = version), (error) => (output.value = String(error)));
     </script>`,
  );
  await build({ configFile: false, root: stage.empty, logLevel: "error", build: { outDir: "page" } });
  await using server = await serve((request, response) => {
    const path = request.url === "/" ? "/index.html" : (request.url ?? "");
    readFile(join(stage.empty, "page", path)).then(
      (content) =>
        response
          .writeHead(200, { "content-type": path.endsWith(".js") ? "text/javascript" : "text/html" })
          .end(content),
      () => response.writeHead(404).end(),
    );
  });
  await using browser = await openBrowser();
  const { page } = await browser.openTab();
  await page.goto(server.url);
  const output = page.locator("output");
  await output.filter({ hasText: /./ }).waitFor();
  expect(await output.innerText()).toBe("1.2.3");
  expect(server.calls).toBe(2);
});
