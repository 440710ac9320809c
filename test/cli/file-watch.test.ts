import { mkdir, mkdtempDisposable, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createFileWatch } from "../../src/cli/serve.ts";

const pollIntervalMs = 50;

/** Resolves with each change in turn. */
async function watch(path: string) {
  const created = await createFileWatch(path, pollIntervalMs);
  let changes = 0;
  let changed = Promise.withResolvers<void>();
  const contents: string[] = [];
  const start = () =>
    created.start(async () => {
      contents.push(await readFile(path, "utf8").catch(() => ""));
      changes += 1;
      changed.resolve();
    });
  const next = async (): Promise<number> => {
    await changed.promise;
    changed = Promise.withResolvers<void>();
    return changes;
  };
  return { start, next, contents };
}

test("reports a file that is written in place, replaced, removed, and created again", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-watch-"));
  const path = join(folder.path, "flowgate.yaml");
  await writeFile(path, "one");
  const { start, next } = await watch(path);
  using _ = start();
  await writeFile(path, "two");
  expect(await next()).toBe(1);
  await writeFile(`${path}~`, "three");
  await rename(`${path}~`, path);
  expect(await next()).toBe(2);
  await rm(path);
  expect(await next()).toBe(3);
  await writeFile(path, "three");
  expect(await next()).toBe(4);
});

test("reports a replaced symbolic link in the path, as Kubernetes updates volumes", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-watch-"));
  for (const version of ["v1", "v2"]) {
    await mkdir(join(folder.path, version));
    await writeFile(join(folder.path, version, "flowgate.yaml"), version);
  }
  const link = join(folder.path, "..data");
  await symlink("v1", link);
  const path = join(folder.path, "flowgate.yaml");
  await symlink(join("..data", "flowgate.yaml"), path);
  const { start, next } = await watch(path);
  using _ = start();
  await symlink("v2", `${link}_tmp`);
  await rename(`${link}_tmp`, link);
  expect(await next()).toBe(1);
});

test("reports a change before the start, and not one that is reverted", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-watch-"));
  const [changed, reverted] = [join(folder.path, "a"), join(folder.path, "b")];
  await writeFile(changed, "one");
  await writeFile(reverted, "one");
  const [first, second] = [await watch(changed), await watch(reverted)];
  await writeFile(changed, "two");
  await writeFile(reverted, "two");
  await writeFile(reverted, "one");
  using _one = first.start();
  using _two = second.start();
  expect(await first.next()).toBe(1);
  await writeFile(reverted, "three");
  expect(await second.next()).toBe(1);
  // Without an earlier report, in which the file had its first content.
  expect(second.contents).toEqual(["three"]);
});

test("reports a file that is written in parts once, when it no longer changes", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-watch-"));
  const path = join(folder.path, "flowgate.yaml");
  await writeFile(path, "0");
  const { start, next } = await watch(path);
  using _ = start();
  const endMs = performance.now() + 10 * pollIntervalMs;
  for (let part = 1; performance.now() < endMs; part += 1) {
    await writeFile(`${path}~`, String(part));
    await rename(`${path}~`, path);
  }
  expect(await next()).toBe(1);
});
