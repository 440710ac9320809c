import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** A folder for what test files share, which run in several processes. It is removed after the run. */
    runFolder: string;
  }
}

let runFolder: string;

/** Called by vitest before the tests. */
export async function setup(project: TestProject): Promise<void> {
  runFolder = await mkdtemp(join(tmpdir(), "flowgate-tests-"));
  project.provide("runFolder", runFolder);
  project.onTestsRerun(async () => {
    const names = await readdir(runFolder);
    await Promise.all(names.map((name) => rm(join(runFolder, name), { recursive: true })));
  });
}

/** Called by vitest after the tests. */
export async function teardown(): Promise<void> {
  await rm(runFolder, { recursive: true });
}
