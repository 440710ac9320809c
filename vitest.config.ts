import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { findMemoryFolder } from "./test/memory-folder.ts";

/** Complete installations, with the programs, clients and servers of others. */
const endToEnd = [
  "{test,packages/*/test}/e2e/**/*.test.ts",
  "test/{conformance,examples,linearizability,packaging}/**/*.test.ts",
];

/** Tests of the packages also run on versions of Node that the service does not support. */
const isCurrentNode = Number(process.versions.node.split(".")[0]) >= 26;

/** For tests of the service. */
const serviceSetup = isCurrentNode ? ["test/program.ts", "test/postgres/shared-server.ts"] : [];

/** Documents are computed from descriptors, by the language alone. That the plugin runs and writes one is tested on each version. */
const onCurrentNode = ["packages/gateway/test/openapi/**", "packages/gateway/test/plugin/openapi-plugin.test.ts"];

/** Of the tests that open pages of complete installations. */
const consoleSetup = serviceSetup.length === 0 ? [] : ["test/console.ts"];

// For this process and those that run the tests.
const temporaryFolder = process.env["TMPDIR"] ?? findMemoryFolder();
if (temporaryFolder !== undefined) {
  process.env["TMPDIR"] = temporaryFolder;
}

const builtPrograms = fileURLToPath(new URL("test/built-programs.ts", import.meta.url));

export default defineConfig({
  plugins: [
    {
      name: "built-programs",
      enforce: "pre",
      resolveId: (id, importer) =>
        /\/(?:base\/program-file|child-program)\.ts$/.test(id) && importer?.includes("/src/")
          ? builtPrograms
          : undefined,
    },
  ],
  test: {
    globalSetup: ["test/run-folder.ts", ...serviceSetup],
    reporters: [fileURLToPath(new URL("test/quiet-reporter.ts", import.meta.url))],
    // Only for tests that hang: slow machines take long.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 120_000 } },
    // Most of the slow ones wait for processes that they start.
    maxWorkers: 4,
    // Loading the modules again for each file costs more than most tests.
    isolate: false,
    restoreMocks: true,
    // For the programs that the tests start.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/node", import.meta.url)) },
    projects: [
      {
        extends: true,
        test: {
          name: "default",
          include: ["{test,packages/*/test}/**/*.test.ts"],
          exclude: isCurrentNode ? endToEnd : [...endToEnd, ...onCurrentNode],
        },
      },
      { extends: true, test: { name: "e2e", include: endToEnd, globalSetup: consoleSetup } },
      {
        extends: true,
        test: {
          name: "no code generation",
          // Only reading and writing JSON differs. Fastify, which other tests use, generates code too.
          include: ["packages/gateway/test/{json/*,compliance}.test.ts"],
          execArgv: ["--disallow-code-generation-from-strings"],
          env: { CODE_GENERATION: "forbidden" },
        },
      },
    ],
  },
});
