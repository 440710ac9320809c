import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { bearer } from "../rest.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of the console's session are skipped: ${missingBrowser}.\n`);
}

function decodeSlashes(target: string): string {
  return target.replace(/^[^?]*/, (path) => path.replaceAll(/%2f/gi, "/"));
}

/** A proxy that serves a service below `/ops`, and can decode the slashes in paths. */
async function openProxy(port: number, { decodesSlashes = false } = {}) {
  const server = createServer((incoming, outgoing) => {
    const { method, headers, url = "" } = incoming;
    if (!url.startsWith("/ops/")) {
      outgoing.writeHead(404).end();
      return;
    }
    const path = url.slice("/ops".length);
    const forwarded = request(
      { port, host: "127.0.0.1", method, headers, path: decodesSlashes ? decodeSlashes(path) : path },
      (response) => {
        outgoing.writeHead(response.statusCode ?? 502, response.headers);
        response.pipe(outgoing);
      },
    );
    forwarded.on("error", () => outgoing.destroy());
    outgoing.on("close", () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/ops`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

describe.skipIf(missingBrowser !== undefined)("the session of the console", () => {
  let service: Service;
  beforeAll(async () => {
    const config = { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] } };
    service = await startService({ config });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("begins and ends at the page that was opened, without a violation of its policy", async () => {
    await using tab = await Console.open(service, { path: "/history?user=admin", ...phone });
    await tab.signIn("admin");
    const { page } = tab;
    expect(page.url()).toBe(`${service.url}/console/history?user=admin`);
    expect(await page.evaluate("document.cookie")).toBe("");
    expect(await page.evaluate("Object.keys(localStorage).concat(Object.keys(sessionStorage))")).toEqual([]);
    await page.reload();
    await page.getByText("Signed in as admin").waitFor({ state: "attached" });
    await page.goto(`${service.url}/sign-out`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(`${service.url}/sign-in`);
    await tab.goto("/history");
    await page.getByRole("link", { name: "Sign in" }).waitFor();
    expect(tab.complaints).toEqual([]);
  });

  test("works below a path prefix of a proxy", async () => {
    await using proxy = await openProxy(service.port);
    await using tab = await Console.open(proxy, { path: "/flows" });
    await tab.signIn("admin");
    expect(tab.page.url()).toBe(`${proxy.url}/console/flows`);
    await tab.page.goto(`${proxy.url}/`);
    await tab.page.waitForURL(`${proxy.url}/console`);
    await tab.page.getByText("Signed in as admin").waitFor({ state: "attached" });
    expect(tab.complaints).toEqual([]);
  });

  test.each(["/flows", "/logs"])("does not ask for the states of nodes where no flows run: %s", async (path) => {
    await using tab = await Console.open(service, { username: "admin", path: "/history" });
    await Promise.all([tab.page.waitForResponse(/\/GetRuntime$/), tab.goto(path)]);
    // By a link, before which the page has sent its requests.
    await tab.page.getByRole("link", { name: "History" }).first().click();
    await tab.page.getByRole("heading", { name: "History" }).waitFor();
    expect(tab.requests.filter((url) => url.endsWith("/ListNodeStatuses"))).toEqual([]);
  });

  test("shows a tab whose id has a slash, below a proxy that decodes paths", async () => {
    const flows = [{ id: "a/b", type: "tab", label: "Orders" }];
    await deploy(service, { flows }, "full", bearer(await login(service, { username: "admin" })));
    await using proxy = await openProxy(service.port, { decodesSlashes: true });
    await using tab = await Console.open(proxy, { username: "admin", path: "/flows" });
    const { page } = tab;
    await page.getByRole("navigation", { name: "Tabs and subflows" }).getByRole("link", { name: "Orders" }).click();
    await page.getByRole("heading", { name: "Orders" }).waitFor();
    expect(page.url()).toBe(`${proxy.url}/console/flows/a~2Fb`);
    await page.reload();
    await page.getByRole("heading", { name: "Orders" }).waitFor();
  });

  test("the pages by which users sign in are accessible, on a phone, in both colour schemes", async () => {
    await using tab = await Console.open(service, phone);
    const { page } = tab;
    const expectNoViolations = async (): Promise<void> => {
      for (const colorScheme of ["light", "dark"] as const) {
        // Without motion, colours change at once.
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        expect([page.url(), colorScheme, await tab.violations()]).toEqual([page.url(), colorScheme, []]);
      }
    };
    await page.goto(`${service.url}/sign-in?return=/console`);
    await expectNoViolations();
    await page.getByLabel("Username").fill("admin");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await expectNoViolations();
    await page.goto(`${service.url}/sign-out`);
    await expectNoViolations();
  });
});
