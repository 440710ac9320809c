import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtempDisposable, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { trees } from "../scripts/lint/layers.ts";

const root = join(import.meta.dirname, "..");

test.each(Object.entries(trees))("the layers of %s exist", (tree, layers) => {
  expect(Object.keys(layers).filter((path) => !existsSync(join(root, tree, path)))).toEqual([]);
});

/** What rows name that is not above them, or in them. */
function findArrowsBack(layers: Readonly<Record<string, readonly [imports: string, packages?: string]>>): string[] {
  const paths = Object.keys(layers);
  const rowOf = (word: string): number => {
    const containing = paths.filter((path) => word === path || word.startsWith(`${path}/`));
    return paths.indexOf(containing.toSorted((one, other) => other.length - one.length)[0] ?? "");
  };
  return paths.flatMap((path, row) =>
    (layers[path]?.[0] ?? "")
      .split(/\s+/)
      .filter((word) => rowOf(word) >= row)
      .map((word) => `${path} names ${word}`),
  );
}

test("a row that names one below it, or a file of one, is found", () => {
  const layers = {
    base: ["errors.ts"],
    "store/sql": ["store"],
    store: ["base store/sql"],
    app: ["base cli/flags.ts"],
    cli: [""],
  } as const;
  expect(findArrowsBack(layers)).toEqual(["store/sql names store", "app names cli/flags.ts"]);
});

test.each(Object.entries(trees))("the layers of %s name only those above them", (_tree, layers) => {
  expect(findArrowsBack(layers)).toEqual([]);
});

/** Runs the linter with the rules of the repository on these files, and returns what it finds. */
async function lint(files: Readonly<Record<string, string>>): Promise<string[]> {
  await using temporary = await mkdtempDisposable(join(tmpdir(), "flowgate-lint-"));
  const folder = await realpath(temporary.path);
  const config = `
    import config from ${JSON.stringify(pathToFileURL(join(root, "oxlint.config.ts")))};
    export default {
      ...config,
      jsPlugins: [${JSON.stringify(join(root, "scripts/lint/plugin.ts"))}],
      options: {},
      categories: {},
      rules: {
        "import/no-cycle": config.rules["import/no-cycle"],
        "flowgate/layers": ["error", ${JSON.stringify(folder)}],
      },
    };`;
  for (const [path, text] of Object.entries({ ...files, "oxlint.config.ts": config })) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const oxlint = join(root, "node_modules/oxlint/bin/oxlint");
  const { promise, resolve } = Promise.withResolvers<string>();
  execFile(process.execPath, [oxlint, "--format", "unix", "src", "packages"], { cwd: folder }, (_error, stdout) =>
    resolve(stdout),
  );
  return (await promise)
    .split("\n")
    .filter((line) => line.includes("["))
    .map((line) => line.replace(/:\d+:\d+:/, ":").replace(/, see .*| \[.*/, ""))
    .toSorted();
}

test("the linter finds forbidden imports of each kind, and no others", async () => {
  const found = await lint({
    "src/base/thread.ts": "export const thread = 1;\n",
    "src/auth/passwords.ts": 'import { thread } from "../base/thread.ts";\nexport const passwords = thread;\n',
    "src/store/store.ts": "export const store = 1;\n",
    "src/store/sqlite/adapter.ts": 'import { store } from "../store.ts";\nexport const adapter = store;\n',
    "src/store/open-store.ts": 'export { adapter } from "./sqlite/adapter.ts";\n',
    "src/telemetry/value.ts": 'import { store } from "../store/store.ts";\nexport const value = store;\n',
    "src/telemetry/diff/type.ts":
      'import type { store } from "../../store/store.ts";\nexport type Store = typeof store;\n',
    "src/telemetry/import-type.ts": 'export type Store = import("../store/store.ts").Store;\n',
    "src/telemetry/dynamic.ts": 'export const load = () => import("../store/store.ts");\n',
    "src/telemetry/names.ts": 'export { store } from "../store/store.ts";\n',
    "src/telemetry/all.ts": 'export * from "../store/store.ts";\n',
    "src/telemetry/package.ts": 'import { parse } from "yaml";\nexport const read = parse;\n',
    "src/services/adapter.ts": 'export * from "../store/sqlite/adapter.ts";\n',
    "src/events/doors.ts": 'export * from "@flowgate/runtime";\n',
    "src/events/behind.ts": 'export * from "../../packages/runtime/src/supervisor.ts";\n',
    "src/events/inside.ts": 'export * from "@flowgate/runtime/src/supervisor.ts";\n',
    "packages/runtime/src/supervisor.ts": "export const runtime = 1;\n",
    "packages/runtime/src/storage.ts": 'export * from "../../../src/store/store.ts";\n',
    "packages/runtime/src/calls.ts": 'export type * from "../../flows/src/configuration.ts";\n',
    "packages/flows/src/configuration.ts": "export type Configuration = 1;\n",
    "packages/runtime/src/main.ts": 'export * from "@node-red/runtime";\n',
    "packages/runtime/src/child/main.ts": 'export * from "@node-red/runtime";\n',
    "packages/runtime/src/child/log.ts": 'export const load = () => import("@node-red/util");\n',
    "packages/runtime/src/child/events.ts":
      'import type { Events } from "@node-red/util";\nexport type Own = Events;\n',
    "src/telemetry/spans.ts": 'export * from "@opentelemetry/sdk-trace";\n',
    "src/cli/serve.ts": 'export * from "../options/parse.ts";\n',
    "packages/cli/src/status.ts": 'export * from "../../../src/options/parse.ts";\n',
    "src/options/parse.ts": "export const options = 1;\n",
    "src/attic/old.ts": 'import { thread } from "../base/thread.ts";\nexport const old = thread;\n',
    "packages/gateway/src/json/text.ts": 'export * from "../routing/router.ts";\n',
    "packages/gateway/src/routing/router.ts": 'export * from "../../../../src/base/thread.ts";\n',
    "packages/gateway/src/client/send.ts": 'export { request } from "node:http";\n',
  });
  expect(found).toEqual([
    "packages/cli/src/status.ts: packages/cli/src must not import src/options/parse.ts",
    "packages/gateway/src/client/send.ts: packages/gateway/src/client runs in browsers: it can't import node:http",
    "packages/gateway/src/json/text.ts: packages/gateway/src/json must not import packages/gateway/src/routing/router.ts",
    "packages/gateway/src/routing/router.ts: packages/gateway/src/routing must not import src/base/thread.ts",
    "packages/runtime/src/calls.ts: packages/runtime/src must not import packages/flows/src/configuration.ts",
    "packages/runtime/src/child/log.ts: packages/runtime/src/child/log.ts must not load @node-red/util",
    "packages/runtime/src/child/main.ts: packages/runtime/src/child/main.ts must not load @node-red/runtime",
    "packages/runtime/src/main.ts: packages/runtime/src/main.ts must not load @node-red/runtime",
    "packages/runtime/src/storage.ts: packages/runtime/src must not import src/store/store.ts",
    "src/attic/old.ts: src/attic/old.ts is in no layer of scripts/lint/layers.ts: add its folder",
    "src/events/behind.ts: src/events must not import packages/runtime/src/supervisor.ts",
    "src/events/inside.ts: src/events must not import @flowgate/runtime/src/supervisor.ts",
    "src/services/adapter.ts: src/services must not import src/store/sqlite/adapter.ts",
    "src/telemetry/all.ts: src/telemetry must not import src/store/store.ts",
    "src/telemetry/diff/type.ts: src/telemetry must not import src/store/store.ts",
    "src/telemetry/dynamic.ts: src/telemetry must not import src/store/store.ts",
    "src/telemetry/import-type.ts: src/telemetry must not import src/store/store.ts",
    "src/telemetry/names.ts: src/telemetry must not import src/store/store.ts",
    "src/telemetry/package.ts: src/telemetry must not import yaml",
    "src/telemetry/spans.ts: src/telemetry must not import @opentelemetry/sdk-trace",
    "src/telemetry/value.ts: src/telemetry must not import src/store/store.ts",
  ]);
});

test("the linter finds circles, also of types", async () => {
  const found = await lint({
    "src/base/one.ts": 'import type { Two } from "./two.ts";\nexport type One = Two;\n',
    "src/base/two.ts": 'import type { Three } from "./three.ts";\nexport type Two = Three;\n',
    "src/base/three.ts": 'import type { One } from "./one.ts";\nexport type Three = One;\n',
    "src/base/four.ts": 'import type { One } from "./one.ts";\nexport type Four = One;\n',
  });
  expect(found).toEqual([
    "src/base/one.ts: Dependency cycle detected",
    "src/base/three.ts: Dependency cycle detected",
    "src/base/two.ts: Dependency cycle detected",
  ]);
});

test("the linter finds what loads modules by names that it can't see", async () => {
  const load = 'import { createRequire } from "node:module";\nexport const load = createRequire(import.meta.url);\n';
  const found = await lint({
    "packages/runtime/src/child/node-red.ts": load,
    "packages/runtime/src/child/admin-server.ts":
      'import Module from "node:module";\nexport const load = Module.createRequire("/");\n',
    "src/app/palette.ts": 'import { createRequire as create } from "node:module";\nexport const load = create("/");\n',
  });
  expect(found).toEqual([
    "packages/runtime/src/child/admin-server.ts: packages/runtime/src/child/admin-server.ts must not load modules by createRequire",
    "src/app/palette.ts: src/app/palette.ts must not load modules by createRequire",
  ]);
});
