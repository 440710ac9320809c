import { spawn } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { appendFile, cp, mkdir, mkdtempDisposable, readdir, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const building = "flowgate: building the sources, which are new or have changed\n";

test("npm start builds the sources when they are new or have changed", async () => {
  await using checkout = await createCheckout();
  expect(await checkout.start()).toEqual({ code: 0, stdout: "0.2.0\n", stderr: building });
  expect(await checkout.start()).toEqual({ code: 0, stdout: "0.2.0\n", stderr: "" });
  await checkout.change();
  expect(await checkout.start()).toEqual({ code: 0, stdout: "changed\n0.2.0\n", stderr: building });
});

test("npm start builds again if the sources change while it builds", async () => {
  await using checkout = await createCheckout();
  const starting = checkout.spawn();
  await once(starting.stderr, "data");
  await checkout.change();
  expect(await text(starting.stdout)).toBe("changed\n0.2.0\n");
  expect(await readdir(checkout.builds)).toHaveLength(1);
});

test("npm start does not run an interrupted build", async () => {
  await using checkout = await createCheckout();
  await mkdir(checkout.builds, { recursive: true });
  using watcher = watchFolder(checkout.builds);
  const interrupted = checkout.spawn();
  await once(watcher, "change");
  interrupted.kill("SIGKILL");
  await once(interrupted, "exit");
  expect(await readdir(checkout.builds)).toEqual([expect.stringMatching(/^unfinished-/)]);
  expect(await checkout.start()).toEqual({ code: 0, stdout: "0.2.0\n", stderr: building });
});

test("two npm start at once share a build", async () => {
  await using checkout = await createCheckout();
  const starts = await Promise.all([checkout.start(), checkout.start()]);
  const started = { code: 0, stdout: "0.2.0\n" };
  expect(starts).toEqual([expect.objectContaining(started), expect.objectContaining(started)]);
  expect(await readdir(checkout.builds)).toHaveLength(1);
});

test("npm start needs the development packages", async () => {
  await using checkout = await createCheckout([".package-lock.json"]);
  expect(await checkout.start()).toEqual({
    code: 1,
    stdout: "",
    stderr: `${building}flowgate: the sources are built with development packages, which are not installed: run npm install --include=dev\n`,
  });
});

/** A copy of what `npm start` needs, with these entries of `node_modules`, or with all. */
async function createCheckout(packages?: readonly string[]) {
  const folder = await mkdtempDisposable(join(tmpdir(), "flowgate-start-"));
  const { path } = folder;
  for (const name of ["src", "gen", "packages", "scripts", "package.json", "tsconfig.json"]) {
    await cp(join(root, name), join(path, name), { recursive: true });
  }
  const installed = join(root, "node_modules");
  if (packages === undefined) {
    await symlink(installed, join(path, "node_modules"));
  } else {
    await mkdir(join(path, "node_modules"));
    for (const name of packages) {
      await symlink(join(installed, name), join(path, "node_modules", name));
    }
  }
  const start = () =>
    spawn(process.execPath, ["scripts/start.ts", "--version"], { cwd: path, stdio: ["ignore", "pipe", "pipe"] });
  return {
    builds: join(path, "dist/start"),
    spawn: start,
    async start() {
      const child = start();
      const [[code], stdout, stderr] = await Promise.all([
        once(child, "close"),
        text(child.stdout),
        text(child.stderr),
      ]);
      return { code: code as number | null, stdout, stderr };
    },
    change: () => appendFile(join(path, "src/cli/compile-cache.ts"), '\nconsole.log("changed");\n'),
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

function watchFolder(path: string) {
  const watcher = watch(path);
  return Object.assign(watcher, { [Symbol.dispose]: () => watcher.close() });
}
