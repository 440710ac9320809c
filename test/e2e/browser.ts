import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";

const executablePath = "/usr/bin/chromium";

/** undefined: it is there. */
export const missingBrowser = existsSync(executablePath) ? undefined : `${executablePath} is not installed`;

/** A page of a real browser, with all that it said and asked for. */
export type Browser = AsyncDisposable & {
  readonly page: Page;
  /** Warnings and errors of its console, and exceptions that nobody caught. */
  readonly complaints: readonly string[];
  /** The URL of each request that it made. */
  readonly requests: readonly string[];
};

/** `args` are chromium's own, beside those that keep it quiet. */
export async function openBrowser(args: readonly string[] = []): Promise<Browser> {
  const userData = await mkdtemp(join(tmpdir(), "flowgate-browser-"));
  const context = await chromium.launchPersistentContext(userData, {
    executablePath,
    viewport: { width: 1280, height: 1000 },
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
  const page = context.pages()[0] ?? (await context.newPage());
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      complaints.push(`${message.type()}: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  context.on("request", (request) => requests.push(request.url()));
  return {
    page,
    complaints,
    requests,
    async [Symbol.asyncDispose]() {
      await context.close();
      await rm(userData, { recursive: true, force: true });
    },
  };
}
