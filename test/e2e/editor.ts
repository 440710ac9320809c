import type { Locator, Page } from "playwright-core";
import type { Browser, Tab } from "./browser.ts";
import { eventually, type Service } from "./service.ts";
import { passwordOf } from "./users.ts";

/** The URL of the listener of Node-RED's tools. */
export function toolsUrl(service: Pick<Service, "log">): string {
  const [, url] = /"nodeRedUrl":"([^"]+)"/.exec(service.log()) ?? [];
  if (url === undefined) {
    throw new Error(`the service has not logged its listener:\n${service.log()}`);
  }
  return url;
}

/** Node-RED's editor in a browser, used as by a person. */
export class Editor implements AsyncDisposable {
  readonly page: Page;
  readonly #tab: Tab;

  private constructor(tab: Tab) {
    this.#tab = tab;
    this.page = tab.page;
  }

  /**
   * Opens its page. Without the code editor, which it does not wait for: it takes half of the CPU time of a page, and code is shown in text
   * fields. Without compression: each service compresses the files once, which takes as long as to load them.
   */
  static async open(browser: Browser, url: string, { codeEditor = false } = {}): Promise<Editor> {
    const editor = new Editor(await browser.openTab({ extraHTTPHeaders: { "accept-encoding": "identity" } }));
    if (!codeEditor) {
      await leaveOut(editor.page, "*/vendor/monaco/dist/editor.js*");
    }
    await editor.page.goto(`${url}/`);
    return editor;
  }

  /** What the console of the browser has complained about. */
  get complaints(): readonly string[] {
    return this.#tab.complaints;
  }

  /** The URLs of all requests. */
  get requests(): readonly string[] {
    return this.#tab.requests;
  }

  async submitLogin(username: string, password = passwordOf(username)): Promise<void> {
    await this.page.locator("#node-dialog-login-username").fill(username);
    await this.page.locator("#node-dialog-login-password").fill(password);
    await this.page.locator("#node-dialog-login-submit").click();
  }

  async login(username: string): Promise<void> {
    await this.submitLogin(username);
    await this.untilLoaded();
  }

  async untilLoaded(): Promise<void> {
    await this.page.locator("#red-ui-header-toolbar").waitFor();
    await this.page.locator("#red-ui-loading").waitFor({ state: "detached" });
    await this.paletteNode("inject").waitFor();
  }

  async logout(): Promise<void> {
    await this.page.locator("#red-ui-header-button-user").click();
    await this.page.locator("#usermenu-item-logout").click();
    await this.page.locator("#node-dialog-login-username").waitFor();
  }

  paletteNode(type: string): Locator {
    return this.page.locator(`.red-ui-palette-node[data-palette-type="${type}"]`);
  }

  /** Drags a type from the palette to a place of the workspace, and returns the id of the new node. */
  async drag(type: string, x: number, y: number): Promise<string> {
    const before = await this.ids();
    const from = this.paletteNode(type);
    await from.scrollIntoViewIfNeeded();
    const chart = await boxOf(this.page.locator("#red-ui-workspace-chart"));
    const start = await centerOf(from);
    await this.page.mouse.move(start.x, start.y);
    await this.page.mouse.down();
    await this.page.mouse.move(chart.x + x - 40, chart.y + y - 40, { steps: 4 });
    await this.page.mouse.move(chart.x + x, chart.y + y, { steps: 4 });
    await this.page.mouse.up();
    return eventually(async () => {
      const [added] = (await this.ids()).filter((id) => !before.includes(id));
      if (added === undefined) {
        throw new Error(`no ${type} was added`);
      }
      return added;
    });
  }

  /** The nodes of the workspace that is shown. */
  async ids(): Promise<string[]> {
    return this.page
      .locator("#red-ui-workspace-chart .red-ui-flow-node-group")
      .evaluateAll((all) => all.map((node) => (node as { id: string }).id));
  }

  node(id: string): Locator {
    return this.page.locator(`[id="${id}"]`);
  }

  async wire(from: string, to: string): Promise<void> {
    const start = await centerOf(this.node(from).locator(".red-ui-flow-port-output .red-ui-flow-port").first());
    const end = await centerOf(this.node(to).locator(".red-ui-flow-port-input .red-ui-flow-port").first());
    await this.page.mouse.move(start.x, start.y);
    await this.page.mouse.down();
    await this.page.mouse.move((start.x + end.x) / 2, (start.y + end.y) / 2, { steps: 4 });
    await this.page.mouse.move(end.x, end.y, { steps: 4 });
    await this.page.mouse.up();
  }

  /** Opens the dialog of a node, changes it, and closes it. */
  async edit(id: string, change: (dialog: Locator) => Promise<void>): Promise<void> {
    const dialog = this.page.locator(".red-ui-editor .red-ui-tray").last();
    const ok = this.page.locator("#node-dialog-ok");
    await eventually(async () => {
      // The editor takes clicks that a busy machine delivers more than 0.65 s apart for two single ones.
      if (!(await ok.isVisible())) {
        await this.node(id).locator(".red-ui-flow-node").first().dblclick({ timeout: 10_000 });
      }
      await ok.waitFor({ timeout: 10_000 });
    });
    await change(dialog);
    await this.closeDialog();
  }

  /** The text of the last notification that matches. */
  notification(text: string | RegExp): Locator {
    return this.page.locator(".red-ui-notification", { hasText: text }).last();
  }

  async chooseDeployment(type: "full" | "flow" | "node"): Promise<void> {
    await this.page.locator("#red-ui-header-button-deploy-options").click();
    await this.page.locator(`#deploymenu-item-${type}`).click();
  }

  get deployButton(): Locator {
    return this.page.locator("#red-ui-header-button-deploy");
  }

  /** Deploys, and resolves with the headers and the body of the request when it was answered with 200. */
  async deploy(): Promise<{ readonly type: string | undefined; readonly rev: string }> {
    // A click on it is ignored while it is disabled, and while a dialog closes.
    await this.page.locator("#red-ui-header-button-deploy:not(.disabled)").waitFor();
    await this.page.locator("#red-ui-header-shade").waitFor({ state: "hidden" });
    const [response] = await Promise.all([
      this.page.waitForResponse((each) => each.url().endsWith("/flows") && each.request().method() === "POST"),
      this.deployButton.click(),
    ]);
    if (response.status() !== 200) {
      throw new Error(`the deployment was answered ${response.status()}: ${await response.text()}`);
    }
    await this.page.locator("#red-ui-header-button-deploy.disabled").waitFor();
    // Until then, at least 0.3 s after the click, the editor ignores deployments of others.
    await this.page.locator(".red-ui-deploy-button-spinner").waitFor({ state: "hidden" });
    const { rev } = (await response.json()) as { rev: string };
    return { type: response.request().headers()["node-red-deployment-type"], rev };
  }

  /** What the debug sidebar shows. */
  async debugMessages(): Promise<string[]> {
    return this.page.locator(".red-ui-debug-msg").allInnerTexts();
  }

  async showSidebar(action: string): Promise<void> {
    await this.invoke(`core:show-${action}-tab`);
  }

  /** Runs an action of the editor, as its keyboard shortcuts do. */
  async invoke(action: string): Promise<void> {
    await this.page.evaluate(`RED.actions.invoke(${JSON.stringify(action)})`);
  }

  /** Opens the palette manager at one of its tabs. */
  async openPaletteManager(tab: "nodes" | "install"): Promise<void> {
    await this.invoke("core:manage-palette");
    await this.page.locator(`#red-ui-tab-${tab} a`).click();
  }

  /** Presses a button of a module in the palette manager, and confirms what it asks. */
  async pressModuleButton(module: string, button: string | RegExp): Promise<void> {
    await this.moduleButton(module, button).click();
    const confirm = this.page.locator(".red-ui-notification button.primary:visible").last();
    await confirm.click();
  }

  moduleButton(module: string, button: string | RegExp): Locator {
    return this.page
      .locator(".red-ui-palette-module-header:visible", { hasText: module })
      .locator(".red-ui-palette-module-button-group a:visible", { hasText: button });
  }

  async closeDialog(): Promise<void> {
    await this.page.locator("#node-dialog-ok").click();
    await this.page.locator("#node-dialog-ok").waitFor({ state: "detached" });
  }

  /** Presses the button beside an inject node. */
  async inject(id: string): Promise<void> {
    await this.node(id).locator(".red-ui-flow-node-button-button").click();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tab[Symbol.asyncDispose]();
  }
}

/** Answers the requests of a page for a script with an empty one. A route of Playwright would disable the cache. */
async function leaveOut(page: Page, urlPattern: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  session.on("Fetch.requestPaused", ({ requestId }) => {
    const responseHeaders = [{ name: "content-type", value: "text/javascript" }];
    // The page may be closed by now.
    session.send("Fetch.fulfillRequest", { requestId, responseCode: 200, responseHeaders }).catch(() => {});
  });
  await session.send("Fetch.enable", { patterns: [{ urlPattern }] });
}

async function boxOf(locator: Locator): Promise<{ x: number; y: number; width: number; height: number }> {
  const box = await locator.boundingBox();
  if (box === null) {
    throw new Error("the element is not visible");
  }
  return box;
}

async function centerOf(locator: Locator): Promise<{ x: number; y: number }> {
  const { x, y, width, height } = await boxOf(locator);
  return { x: x + width / 2, y: y + height / 2 };
}
