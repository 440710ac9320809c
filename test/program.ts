import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
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
  const build = async (): Promise<string> => (await Promise.all([buildProgram("tests"), buildFixtures()]))[0];
  process.env["TESTED_PROGRAM"] = await build();
  project.onTestsRerun(async () => void (await build()));
}

/**
 * Bundles what tests start in place of the flow runtime. Its process gets no cache of compiled code, and to load sources without one
 * takes most of the time of these tests.
 */
async function buildFixtures(): Promise<void> {
  const sources = fileURLToPath(new URL("../packages/runtime/test/fixtures", import.meta.url));
  const names = (await readdir(sources)).filter((name) => name.endsWith(".ts"));
  await using build = await rolldown({
    input: names.map((name) => join(sources, name)),
    platform: "node",
    external: /^@node-red\//,
    logLevel: "warn",
  });
  const { output } = await build.generate({ format: "es", entryFileNames: "[name].js", chunkFileNames: "[name].js" });
  const files = output.flatMap((file) => (file.type === "chunk" ? [{ path: file.fileName, code: file.code }] : []));
  // Beside the folders of the program, as program-file.ts requires.
  await writeBundle({ files, modules: [] }, fileURLToPath(new URL("../dist/tests/fixtures", import.meta.url)));
}
