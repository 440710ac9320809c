import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { appendFile, cp, mkdir, mkdtempDisposable, readdir, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const building = "flowgate: building the sources, which are new or have changed\n";

let checkout: Checkout;
beforeAll(async () => {
  checkout = await createCheckout();
});
afterAll(() => checkout?.[Symbol.asyncDispose]());

// Few builds, which take seconds: one that is interrupted, one of sources that change meanwhile, and two of what they are then.
test("npm start builds new sources, again if they change, once for two at once, and runs no interrupted build", async () => {
  await mkdir(checkout.builds, { recursive: true });
  using watcher = watchFolder(checkout.builds);
  const interrupted = checkout.spawn();
  await once(watcher, "change");
  interrupted.kill("SIGKILL");
  await once(interrupted, "exit");
  const unfinished = await readdir(checkout.builds);
  expect(unfinished).toEqual([expect.stringMatching(/^unfinished-/)]);

  const first = checkout.spawn();
  const ended = readOutcome(first);
  await once(first.stderr, "data");
  await checkout.change();
  // It builds again, and the second one the same.
  await once(first.stderr, "data");
  const second = await checkout.start();
  const started = { code: 0, stdout: "changed\n0.2.0\n" };
  expect(await ended).toEqual({ ...started, stderr: building.repeat(2) });
  expect(second).toMatchObject(started);
  expect(await readdir(checkout.builds)).toHaveLength(unfinished.length + 1);
  expect(await checkout.start()).toEqual({ ...started, stderr: "" });

  // Nor a finished build of other sources.
  await checkout.change();
  const rebuilding = checkout.spawn();
  const [printed] = (await once(rebuilding.stderr, "data")) as [Buffer];
  expect(printed.toString()).toBe(building);
  rebuilding.kill("SIGKILL");
  await once(rebuilding, "exit");
});

test("npm start needs the development packages", async () => {
  await using incomplete = await createCheckout([".package-lock.json"]);
  expect(await incomplete.start()).toEqual({
    code: 1,
    stdout: "",
    stderr: `${building}flowgate: the sources are built with development packages, which are not installed: run npm install --include=dev\n`,
  });
});

type Checkout = Awaited<ReturnType<typeof createCheckout>>;

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
    start: () => readOutcome(start()),
    change: () => appendFile(join(path, "src/cli/option-flags.ts"), '\nconsole.log("changed");\n'),
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

async function readOutcome(child: ChildProcessByStdio<null, Readable, Readable>) {
  const [[code], stdout, stderr] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
  return { code: code as number | null, stdout, stderr };
}

function watchFolder(path: string) {
  const watcher = watch(path);
  return Object.assign(watcher, { [Symbol.dispose]: () => watcher.close() });
}
