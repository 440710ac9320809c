import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { bundleService, writeBundle } from "../scripts/bundle.ts";

const folder = fileURLToPath(new URL("../dist/tests", import.meta.url));

/** Builds the service into a folder that `npm run build` does not use, and returns its program. */
export async function buildProgram(): Promise<string> {
  await writeBundle(await bundleService(), folder);
  return `${folder}/cli/main.js`;
}

/** Called by vitest before the tests. */
export async function setup(project: TestProject): Promise<void> {
  process.env["TESTED_PROGRAM"] = await buildProgram();
  project.onTestsRerun(async () => void (await buildProgram()));
}
