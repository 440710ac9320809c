import axe from "axe-core";
import type { Page } from "playwright-core";
import { openBrowser, type Tab } from "../browser.ts";
import type { Service } from "../service.ts";
import { passwordOf } from "../users.ts";

export type Screen = {
  /** In CSS pixels. Defaults to a desktop's. */
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly colorScheme?: "light" | "dark";
};

/** The narrowest screen for which the console is made. */
export const phone = { viewport: { width: 390, height: 844 } } satisfies Screen;

const desktop = { viewport: { width: 1280, height: 1000 } } satisfies Screen;

/**
 * Tabs that no test uses; the test files of a worker share them. Where their process has shown the console before, it takes half of the CPU
 * time to load it. It remains as long as the tab is at an address of the same site, such as that of a picture.
 */
const idle: Tab[] = [];

async function takeTab(): Promise<Tab> {
  const tab = idle.pop();
  return tab === undefined || tab.page.isClosed() ? (await openBrowser()).openTab() : tab;
}

/** The web console in a browser, used as by a person. */
export class Console implements AsyncDisposable {
  readonly page: Page;
  readonly #tab: Tab;
  readonly #url: string;
  /** The numbers of those of earlier tests in the tab. */
  readonly #earlier: { readonly complaints: number; readonly requests: number };

  private constructor(tab: Tab, url: string) {
    this.#tab = tab;
    this.#url = url;
    this.#earlier = { complaints: tab.complaints.length, requests: tab.requests.length };
    this.page = tab.page;
  }

  /**
   * Signs in, unless `username` is undefined, and opens a page such as `/history`. The form is sent without showing it, as the pages by
   * which users sign in take as long to load as the console; `signIn` uses them.
   */
  static async open(
    { url }: Pick<Service, "url">,
    {
      username,
      path = "",
      viewport = desktop.viewport,
      colorScheme = "light",
    }: Screen & { readonly username?: string; readonly path?: string } = {},
  ): Promise<Console> {
    const console = new Console(await takeTab(), url);
    const { page } = console;
    await page.context().clearCookies();
    await page.setViewportSize(viewport);
    // Colours that fade in would have too little contrast meanwhile.
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    if (username !== undefined) {
      const form = { username, password: passwordOf(username) };
      const headers = { origin: new URL(url).origin };
      // Its response sets the cookie of the tab.
      await page.request.post(`${url}/sign-in`, { form, headers, failOnStatusCode: true, maxRedirects: 0 });
    }
    await console.goto(path);
    if (username !== undefined) {
      await page.getByText(`Signed in as ${username}`).waitFor({ state: "attached" });
    }
    return console;
  }

  /** Opens a page by its address. Links are followed by `page`. */
  async goto(path: string): Promise<void> {
    await this.page.goto(`${this.#url}/console${path}`);
  }

  /** Shows another page as a link to it does, without loading the console again. */
  async show(path: string): Promise<void> {
    await this.page.evaluate(`history.pushState(undefined, "", ${JSON.stringify(`${this.#url}/console${path}`)})`);
  }

  /** By the link of the page that is shown. Returns to it. */
  async signIn(username: string, password = passwordOf(username)): Promise<void> {
    const { page } = this;
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("Username").fill(username);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText(`Signed in as ${username}`).waitFor({ state: "attached" });
  }

  /** What the browser has complained about, such as violations of the Content Security Policy; but not that no one was signed in. */
  get complaints(): readonly string[] {
    const complaints = this.#tab.complaints.slice(this.#earlier.complaints);
    return complaints.filter((complaint) => !complaint.includes("status of 401"));
  }

  /** The URLs of all requests. */
  get requests(): readonly string[] {
    return this.#tab.requests.slice(this.#earlier.requests);
  }

  /** What violates WCAG 2.2 AA on the page that is shown: the rules, with the elements. */
  async violations(): Promise<string[]> {
    // Once for each document: to compile it costs as much as a run.
    if (await this.page.evaluate("typeof axe === 'undefined'")) {
      await this.page.evaluate(axe.source);
    }
    const options: axe.RunOptions = {
      resultTypes: ["violations"],
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    };
    const violations = await this.page.evaluate<axe.Result[]>(
      `axe.run(${JSON.stringify(options)}).then(({ violations }) => violations)`,
    );
    return violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.map(({ html, failureSummary = "" }) => `${html} ${failureSummary}`).join(", ")}`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.page.goto(`${this.#url}/console/icon.svg`);
      idle.push(this.#tab);
    } catch {
      // The service is not there any more.
      await this.#tab[Symbol.asyncDispose]();
    }
  }
}
