import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";

const executablePath = "/usr/bin/chromium";

/** The reason for which there is no browser; undefined: there is one. */
export const missingBrowser = existsSync(executablePath) ? undefined : `${executablePath} is not installed`;

/** A page in a real browser, with its console output and requests. */
export type Browser = AsyncDisposable & {
  readonly page: Page;
  /** Warnings and errors of its console, and uncaught exceptions. */
  readonly complaints: readonly string[];
  /** The URL of each request that it made. */
  readonly requests: readonly string[];
};

/** `args` are additional flags of Chromium. */
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
