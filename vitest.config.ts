import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** The transcoder compiles functions, and interprets them where code generation is forbidden. Its tests run in both forms. */
const transcoding = "packages/transcoding/test";
const env = { CODE_GENERATION: "forbidden" };

/** For tests of the service. Those of the packages also run on versions of Node that it does not support. */
const serviceSetup =
  Number(process.versions.node.split(".")[0]) >= 26 ? ["test/program.ts", "test/postgres/shared-server.ts"] : [];

export default defineConfig({
  test: {
    // Only for tests that hang: slow machines take long.
    testTimeout: 240_000,
    hookTimeout: 240_000,
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
          globalSetup: ["test/run-folder.ts", ...serviceSetup],
        },
      },
      {
        extends: true,
        test: {
          name: "interpreted",
          include: [`${transcoding}/**/*.test.ts`],
          // Their programs are processes of their own, and the sweep of Google's APIs takes long. The plugin transcodes nothing.
          exclude: [
            "tutorial",
            "quick-starts",
            "openapi-plugin",
            "gapic-python",
            "client/browser",
            "client/grpc-gateway",
            "client/peers",
            "googleapis/*",
          ].map((name) => `${transcoding}/${name}.test.ts`),
          setupFiles: [`${transcoding}/forbid-code-generation.ts`],
          env,
        },
      },
      {
        extends: true,
        test: {
          name: "no code generation",
          // Fastify, which other tests use, generates code too.
          include: [`${transcoding}/json*.test.ts`],
          execArgv: ["--disallow-code-generation-from-strings"],
          env,
        },
      },
    ],
  },
});
