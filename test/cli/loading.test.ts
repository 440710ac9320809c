import { execFileSync } from "node:child_process";
import { chmod, mkdir, mkdtempDisposable, readdir, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCli } from "./run-cli.ts";

/** Prints the path of each module to stderr. The build has those that it has bundled in comments. */
const listing = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      const modules = Buffer.from(loaded.source ?? "").toString().match(/(?<=^\\/\\/ )(?:\\S+\\/)?(?:src|node_modules)\\/\\S+$/gm) ?? [];
      process.stderr.write([url, ...modules, ""].join("\\n"));
      return loaded;
    },
  });
`)}`;

/** Without the compile cache of the tests, which has precedence. */
const env = { NODE_COMPILE_CACHE: "" };

// The port is invalid, so that the command ends after checking its options.
const start = ["serve", "--port", "many"];

test.each([
  ["help", ["--help"], []],
  ["start without a configuration file", start, ["zod"]],
  ["start with one", [...start, "--config", "/dev/null"], ["yaml", "zod"]],
])("%s loads only what it needs", async (_, args, packages) => {
  const { stderr } = await runCli(args, { env: { NODE_OPTIONS: `--import ${listing}` } });
  expect(stderr).toMatch(/^packages\/cli\/src\/run\.ts$/m);
  const found = ["pg", "yaml", "zod"].filter((name) => stderr.includes(`node_modules/${name}/`));
  expect(found).toEqual(packages);
});

test.each([
  ["help", ["--help"], []],
  ["a check of files", ["validate", "-"], ["yaml"]],
  ["a call", ["whoami", "--server", "http://127.0.0.1:1"], ["@connectrpc"]],
  ["a list of contexts", ["context", "list"], []],
])("%s loads nothing of the service", async (_, args, packages) => {
  const { stderr } = await runCli(args, { input: "[]", env: { NODE_OPTIONS: `--import ${listing}` } });
  const loaded = [...stderr.matchAll(/^src\/(\S+\.ts)$/gm)].map(([, path = ""]) => path);
  expect(stderr).toMatch(/^packages\/cli\/src\/run\.ts$/m);
  expect(loaded.toSorted()).toEqual([
    "cli/local-actions.ts",
    "cli/main.ts",
    "cli/option-flags.ts",
    "cli/run.ts",
    "cli/service-commands.ts",
  ]);
  expect(["@connectrpc", "yaml", "zod"].filter((name) => stderr.includes(`node_modules/${name}/`))).toEqual(packages);
});

test("the start loads node:http without Node's HTTP client", async () => {
  const list = `process.on("exit", () => process.stderr.write(process.moduleLoadList.join("\\n")))`;
  const { stderr } = await runCli(start, {
    env: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(list)}` },
  });
  expect(stderr).toMatch(/^NativeModule http$/m);
  expect(stderr).not.toMatch(/undici\/undici$/m);
});

test("a service without TLS loads neither HTTP/2, TLS nor fetch to start and to stop", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const config = join(directory.path, "flowgate.json");
  await writeFile(config, JSON.stringify({ runtime: { mode: "none" } }));
  const stopAndList = `
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = (text) => {
      if (String(text).includes("listens on")) {
        process.kill(process.pid, "SIGTERM");
      }
      return write(text);
    };
    process.on("exit", () => process.stderr.write(process.moduleLoadList.join("\\n")));
  `;
  const { code, stderr } = await runCli(
    ["serve", "--config", config, "--port", "0", "--data-dir", join(directory.path, "data")],
    { env: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(stopAndList)}` } },
  );
  const loaded = ["http", "http2", "tls", "internal/deps/undici/undici"].filter((name) =>
    stderr.split("\n").includes(`NativeModule ${name}`),
  );
  expect({ code, loaded }).toEqual({ code: 0, loaded: ["http"] });
});

test("resets the flag of V8 to the default that it has in Node", () => {
  const options = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  expect(options).toContain("default: --semi-space-growth-factor=2\n");
});

const filesIn = async (folder: string) =>
  (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());

test("puts the compile cache of other commands than the service in the cache folder of the user", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const cached = { ...env, XDG_CACHE_HOME: join(directory.path, "cache") };
  await runCli(start, { env: cached });
  expect(await readdir(directory.path)).toEqual([]);
  await runCli(["--help"], { env: cached });
  const folder = join(directory.path, "cache/flowgate/compile-cache");
  expect((await filesIn(folder)).length).toBeGreaterThan(3);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
});

test("does not use a compile cache whose folder others could replace", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  await chmod(directory.path, 0o777);
  const { code } = await runCli(["--help"], { env: { ...env, HOME: directory.path } });
  expect({ code, files: await filesIn(directory.path) }).toEqual({ code: 0, files: [] });
});

test("puts the compile cache in the data directory", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  await runCli([...start, "--data-dir", directory.path], { env });
  const files = await readdir(join(directory.path, "compile-cache"), { recursive: true });
  expect(files.length).toBeGreaterThan(10);
});

test("finds the data directory in the configuration file too", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const config = join(directory.path, "flowgate.yaml");
  await writeFile(config, `dataDir: ${directory.path}\n`);
  await runCli([...start, "--config", config], { env });
  expect(await readdir(directory.path)).toContain("compile-cache");
});

test("does not create the data directory for the compile cache", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  await runCli([...start, "--data-dir", join(directory.path, "data")], { env });
  expect(await readdir(directory.path)).toEqual([]);
});

test("does not use a compile cache that others could write", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const folder = join(directory.path, "compile-cache");
  await mkdir(folder);
  await chmod(folder, 0o777);
  await runCli([...start, "--data-dir", directory.path], { env });
  expect(await readdir(folder)).toEqual([]);
});
