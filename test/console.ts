import { ensureConsole } from "../scripts/console.ts";

/** Called by vitest before the end-to-end tests: builds the web console, which services serve from `dist/console`. */
export async function setup(): Promise<void> {
  await ensureConsole();
}
