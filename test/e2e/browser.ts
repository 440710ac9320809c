import { existsSync } from "node:fs";
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";

// Debian's packages chromium-headless-shell and chromium. The first has no windows: pages cost half as much CPU time, since for each of
// its windows the other one also loads the pages of its address bar.
const executablePath = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => existsSync(path));

/** The reason for which there is no browser; undefined: there is one. */
export const missingBrowser =
  executablePath === undefined ? "neither chromium-headless-shell nor chromium of Debian is installed" : undefined;

/** A real browser. Its pages share neither cookies nor caches. */
export type Browser = AsyncDisposable & {
  openTab(options?: BrowserContextOptions): Promise<Tab>;
};

/** A page with its console output and requests. */
export type Tab = AsyncDisposable & {
  readonly page: Page;
  /** Warnings and errors of its console, and uncaught exceptions. */
  readonly complaints: readonly string[];
  /** The URL of each request that it made. */
  readonly requests: readonly string[];
};

/** `args` are additional flags of Chromium. */
export async function openBrowser(args: readonly string[] = []): Promise<Browser> {
  const browser = await chromium.launch({
    ...(executablePath !== undefined && { executablePath }),
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      ...args,
    ],
  });
  return {
    openTab: async (options) =>
      watch(await browser.newContext({ viewport: { width: 1280, height: 1000 }, ...options })),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

async function watch(context: BrowserContext): Promise<Tab> {
  // Busy machines take long.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      complaints.push(`${message.type()}: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => complaints.push(error.stack ?? String(error)));
  context.on("request", (request) => requests.push(request.url()));
  return { page, complaints, requests, [Symbol.asyncDispose]: () => context.close() };
}
