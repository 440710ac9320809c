import { existsSync } from "node:fs";
import {
  type Browser as Chromium,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";

// Debian's packages chromium-headless-shell and chromium. The first has no windows: pages cost half as much CPU time, since for each of
// its windows the other one also loads the pages of its address bar.
const executablePath = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => existsSync(path));

/** The reason for which there is no browser; undefined: there is one. */
export const missingBrowser =
  executablePath === undefined ? "neither chromium-headless-shell nor chromium of Debian is installed" : undefined;

/** A real browser. Its pages share neither cookies nor caches. */
export type Browser = AsyncDisposable & { openTab(options?: BrowserContextOptions): Promise<Tab> };

/** A page with its console output and requests. */
export type Tab = AsyncDisposable & {
  readonly page: Page;
  /** Warnings and errors of its console, and uncaught exceptions. */
  readonly complaints: readonly string[];
  /** The URL of each request that it made. */
  readonly requests: readonly string[];
};

/** The browser of this worker, which its test files share. */
let shared: Promise<Chromium> | undefined;

/**
 * Opens tabs in the browser of this worker, and closes them when it is disposed. With `args`, additional flags of Chromium, it is another
 * browser, which ends then.
 */
export async function openBrowser(args: readonly string[] = []): Promise<Browser> {
  const own = args.length > 0 ? await launch(args) : undefined;
  const contexts = new Set<BrowserContext>();
  return {
    async openTab(options) {
      const running = own ?? (await launchShared());
      const context = await running.newContext({ viewport: { width: 1280, height: 1000 }, ...options });
      contexts.add(context);
      context.once("close", () => contexts.delete(context));
      return watch(context);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...contexts].map((context) => context.close()));
      await own?.close();
    },
  };
}

/** Starts another one if the browser has ended. */
function launchShared(): Promise<Chromium> {
  if (shared === undefined) {
    // By which vitest ends its workers. When the process exits by itself, the browser is killed and its folders are removed.
    process.once("SIGTERM", () => process.exit());
    shared = launch();
  } else {
    shared = shared.then(
      (running) => (running.isConnected() ? running : launch()),
      () => launch(),
    );
  }
  return shared;
}

function launch(args: readonly string[] = []): Promise<Chromium> {
  return chromium.launch({
    ...(executablePath !== undefined && { executablePath }),
    handleSIGTERM: false,
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
