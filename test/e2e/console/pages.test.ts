import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { functionNode } from "../flow-builders.ts";
import { bearer } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of the web console are skipped: ${missingBrowser}.\n`);
}

const html = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const place = { x: 300, y: 120 };

/** Ids that have to be encoded in the address, and are others if they are decoded twice. */
const tabId = "50%41/t";
const nodeId = "fail%41";
const nodePath = `/flows/${encodeURIComponent(tabId).replace("%2F", "~2F")}?node=${encodeURIComponent(nodeId)}`;

/** What flows, users and clients can name, all of it HTML. */
const flows = [
  { id: tabId, type: "tab", label: html },
  {
    id: "repeat",
    type: "inject",
    z: tabId,
    x: 120,
    y: 120,
    name: html,
    props: [{ p: "payload" }],
    payload: html,
    payloadType: "str",
    once: true,
    onceDelay: 0.1,
    repeat: "2",
    wires: [[nodeId]],
  },
  functionNode(nodeId, {
    z: tabId,
    ...place,
    name: html,
    func: `node.status({ fill: "red", shape: "ring", text: ${JSON.stringify(html)} }); node.error(${JSON.stringify(html)}); return msg;`,
    wires: [["shown"]],
  }),
  { id: "shown", type: "debug", z: tabId, x: 480, y: 120, name: html, active: true, complete: "payload", wires: [] },
  { id: "note", type: "comment", z: tabId, x: 120, y: 40, name: html, info: html },
];

describe.skipIf(missingBrowser !== undefined)("each page of the console", () => {
  let service: Service;
  let rev: string;
  beforeAll(async () => {
    const config = { adminAuth: { users: [user("admin", "*"), user("viewer", "read")] } };
    service = await startService({ config });
    const admin = { ...bearer(await login(service, {})), "service-deployment-message": html };
    rev = await deploy(service, { flows }, "full", admin);
    await service.send("POST", "/tokens", {
      headers: { ...admin, "content-type": "application/json" },
      body: JSON.stringify({ name: html, scope: "read", expires_in: 3600 }),
    });
    const written = await service.send("PUT", "/context/global/page", {
      headers: { ...admin, "content-type": "application/json" },
      body: JSON.stringify({ value: html }),
    });
    if (written.status !== 200) {
      throw new Error(`the context was not written: ${written.body}`);
    }
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const paths = (): string[] => [
    "/no-such-page",
    "/",
    "/flows",
    nodePath,
    "/history",
    `/history/${rev}`,
    "/deploy",
    "/proposals",
    "/logs",
    "/modules",
    "/context",
    "/tokens",
    "/audit",
    "/settings",
  ];

  const screens = [
    ["on a phone in dark colours", { ...phone, colorScheme: "dark" }],
    ["on a desktop in light colours", { viewport: { width: 1280, height: 1000 }, colorScheme: "light" }],
  ] as const;

  // Each page is shown once for both screens. Without motion, colours change at once.
  test("is accessible, fits, and shows hostile text as text, on a phone and on a desktop", async () => {
    await using console = await Console.open(service, { username: "admin", path: "/no-such-page" });
    const { page } = console;
    for (const path of paths()) {
      for (const [at, [name, { viewport, colorScheme }]] of screens.entries()) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        if (at === 0) {
          await console.show(path);
        }
        await page.locator("main h1").waitFor();
        await page.getByText("Loading …").first().waitFor({ state: "detached" });
        expect([path, name, await console.violations()]).toEqual([path, name, []]);
        const overflow = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        expect([path, name, overflow]).toEqual([path, name, 0]);
        expect([path, name, await page.evaluate("typeof hacked")]).toEqual([path, name, "undefined"]);
      }
    }
    await console.goto(nodePath);
    for (const [, { viewport, colorScheme }] of screens) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.getByRole("complementary", { name: "Node" }).getByText(nodeId).waitFor();
      await page.getByText(html, { exact: false }).first().waitFor();
    }
    expect(console.complaints).toEqual([]);
  });

  test("the first one loads at most 250 kB", async () => {
    await using console = await Console.open(service);
    await console.signIn("admin");
    await console.page.getByRole("heading", { name: "Active revision" }).waitFor();
    const files = new Set(console.requests.filter((each) => each.includes("/console/assets/")));
    const headers = { "accept-encoding": "gzip" };
    const bytes = await Promise.all(
      [...files].map(async (url) => Number((await fetch(url, { headers })).headers.get("content-length"))),
    );
    expect(bytes.length).toBeGreaterThan(3);
    expect(bytes.reduce((sum, each) => sum + each)).toBeLessThan(250_000);
  });

  test("is found not to be accessible if it is not", async () => {
    await using console = await Console.open(service, { username: "admin" });
    await console.page.locator("main h1").waitFor();
    await console.page.evaluate("document.querySelector('main').append(document.createElement('input'))");
    expect(await console.violations()).toEqual([expect.stringMatching(/^label: /)]);
  });

  test("shows no controls to someone who may only read", async () => {
    await using console = await Console.open(service, { username: "viewer" });
    const { page } = console;
    const navigation = page.getByRole("navigation", { name: "Pages" });
    await navigation.getByRole("link", { name: "History" }).waitFor();
    expect(await navigation.getByRole("link", { name: "Logs" }).count()).toBe(0);
    await page.locator("main h1").waitFor();
    for (const name of ["Restart", "Stop", "Undo …"]) {
      expect([name, await page.getByRole("button", { name, exact: true }).count()]).toEqual([name, 0]);
    }
  });

  test("can be used with the keyboard alone", async () => {
    await using console = await Console.open(service, { username: "admin" });
    const { page } = console;
    await page.locator("main h1").waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("content");

    // A dialog keeps the focus, and gives it back.
    const stop = page.getByRole("button", { name: "Stop", exact: true });
    await stop.focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    for (let press = 0; press < 8; press += 1) {
      await page.keyboard.press("Tab");
      expect(await page.evaluate("document.activeElement.closest('[role=dialog]') !== null")).toBe(true);
    }
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Stop");
  });
});
