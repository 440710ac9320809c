import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { bundleService, writeBundle } from "../scripts/bundle.ts";

/**
 * Builds the service, and returns its program. The folder below `dist` belongs to the caller, because another build would replace files
 * that its services have not loaded yet.
 */
export async function buildProgram(name: "tests" | "torture" | "bench"): Promise<string> {
  const folder = fileURLToPath(new URL(`../dist/${name}`, import.meta.url));
  await writeBundle(await bundleService(), folder);
  return `${folder}/cli/main.js`;
}

/** Called by vitest before the tests. */
export async function setup(project: TestProject): Promise<void> {
  process.env["TESTED_PROGRAM"] = await buildProgram("tests");
  project.onTestsRerun(async () => void (await buildProgram("tests")));
}
