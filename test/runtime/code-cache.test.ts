import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { closeSync, openSync } from "node:fs";
import { mkdir, mkdtempDisposable, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { eventually } from "../e2e/service.ts";
import { fixture, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, installProbe } from "./flow-builders.ts";

const createFolder = () => mkdtempDisposable(join(tmpdir(), "flowgate-code-cache-"));

describe("a module", () => {
  const program = fileURLToPath(fixture("load-with-code-cache"));

  /** Loads the module in a process that has the cache as its descriptor 5. */
  async function load(module: string, cache: string, flags: "r" | "w+"): Promise<unknown> {
    const fd = openSync(cache, flags);
    const child = spawn(process.execPath, [program, module], {
      stdio: ["ignore", "pipe", "inherit", "ignore", "ignore", fd],
    });
    closeSync(fd);
    return JSON.parse(await text(child.stdout as NonNullable<typeof child.stdout>));
  }

  const code = (result: string): string =>
    `const path = require("path"); module.exports = [require.resolve("path"), typeof require.cache, __filename === module.filename,
       path.basename(__dirname), this === exports, ${result}];`;
  const exported = (folder: string, result: unknown) => ["path", "object", true, folder, true, result];

  test("is compiled from the cache, if its content is the one that was recorded", async () => {
    await using folder = await createFolder();
    const [module, cache] = [join(folder.path, "module.cjs"), join(folder.path, "cache")];
    const name = folder.path.split("/").at(-1) ?? "";
    await writeFile(module, code("1"));
    expect(await load(module, cache, "w+")).toEqual(exported(name, 1));
    expect(await load(module, cache, "r")).toEqual(exported(name, 1));

    await writeFile(module, code("2"));
    expect(await load(module, cache, "r")).toEqual(exported(name, 2));
    // V8 compares only the lengths, so that this shows whose code was executed.
    const recorded = (await readFile(cache, "latin1")).slice(32);
    const changed = Buffer.from(recorded.replace(hash("sha256", code("1")), hash("sha256", code("2"))), "latin1");
    await writeFile(cache, Buffer.concat([hash("sha256", changed, "buffer"), changed]));
    expect(await load(module, cache, "r")).toEqual(exported(name, 1));
    await writeFile(cache, Buffer.concat([hash("sha256", recorded, "buffer"), changed]));
    expect(await load(module, cache, "r")).toEqual(exported(name, 2));
  });

  test("requires the files that were recorded, unless the manifest of their package has changed", async () => {
    await using folder = await createFolder();
    const write = (name: string, content: string) => writeFile(join(folder.path, name), content);
    const [module, cache] = [join(folder.path, "module.cjs"), join(folder.path, "cache")];
    await write("module.cjs", `module.exports = require("./part");`);
    await write("part.js", `module.exports = "recorded";`);
    expect(await load(module, cache, "w+")).toBe("recorded");
    // Node would find this one first.
    await write("part", `module.exports = "found";`);
    expect(await load(module, cache, "r")).toBe("recorded");
    await write("part.js", `module.exports = "changed";`);
    expect(await load(module, cache, "r")).toBe("changed");
    await write("package.json", "{}");
    expect(await load(module, cache, "r")).toBe("found");
  });

  test("can require itself through another one, and one that throws again", async () => {
    await using folder = await createFolder();
    const [module, cache] = [join(folder.path, "module.cjs"), join(folder.path, "cache")];
    await writeFile(
      module,
      `exports.early = 1; exports.other = require("./other"); exports.isSame = require("./other") === exports.other;
       exports.errors = [1, 2].map(() => { try { require("./failing"); } catch ({ message }) { return message; } });`,
    );
    await writeFile(join(folder.path, "other.js"), `module.exports = Object.keys(require("./module.cjs"));`);
    await writeFile(
      join(folder.path, "failing.js"),
      `global.tries = (global.tries ?? 0) + 1; throw new Error(global.tries);`,
    );
    for (const flags of ["w+", "r"] as const) {
      expect(await load(module, cache, flags)).toEqual({
        early: 1,
        other: ["early"],
        isSame: true,
        errors: ["1", "2"],
      });
    }
  });

  test.each([
    ["with a syntax error", "module.exports = [", /SyntaxError/],
    ["that throws", "\n\n  throw new Error('position')", /module\.cjs:3:9/],
  ])("%s is reported as without a cache", async (_what, content, expected) => {
    await using folder = await createFolder();
    const module = join(folder.path, "module.cjs");
    await writeFile(module, content);
    const fd = openSync(join(folder.path, "cache"), "w+");
    const child = spawn(process.execPath, [program, module], {
      stdio: ["ignore", "ignore", "pipe", "ignore", "ignore", fd],
    });
    closeSync(fd);
    expect(await text(child.stderr as NonNullable<typeof child.stderr>)).toMatch(expected);
  });

  test("is loaded from a package of ES modules too", async () => {
    await using folder = await createFolder();
    const [module, cache] = [join(folder.path, "module.js"), join(folder.path, "cache")];
    await writeFile(module, "import.meta.url; export const number = 7;");
    for (const flags of ["w+", "r"] as const) {
      expect(await load(module, cache, flags)).toEqual({ number: 7 });
    }
  });
});

describe("a runtime", () => {
  /** The inodes of its open files, as a flow sees them. */
  const openFiles = endpoint(
    "/open",
    `${escape} const fs = host.getBuiltinModule("fs"); const found = [];
     for (let fd = 0; fd < 1_000; fd++) try { found.push(fs.fstatSync(fd).ino); } catch {}
     msg.payload = found`,
  );

  test("leaves a cache, which the next one uses, and starts if the file is no cache; no flow has it", async () => {
    await using folder = await createFolder();
    const inodes: number[] = [];
    for (const start of ["without a cache", "with one", "with a file that is none"]) {
      await using runtime = await runtimeUnderTest({
        codeCacheDir: folder.path,
        active: async () => revision(1, openFiles),
      });
      await runtime.untilState("running");
      const files = await eventually(async () => {
        const names = await readdir(folder.path);
        expect({ start, names }).toEqual({ start, names: [expect.stringMatching(/^flow-runtime-[\da-f]{16}$/)] });
        return names;
      });
      const file = join(folder.path, files[0] ?? "");
      const { ino, size, mode } = await stat(file);
      expect([size > 1_000_000, mode & 0o777]).toEqual([true, 0o600]);
      inodes.push(ino);
      const open = JSON.parse(await runtime.get("/open")) as number[];
      expect(open.length).toBeGreaterThan(3);
      expect(open).not.toContain(ino);
      if (start === "with one") {
        await writeFile(file, Buffer.alloc(size));
      }
    }
    expect(new Set(inodes).size).toBe(1);
  });

  test("leaves none if it has added modules, whose code runs before flows", async () => {
    await using folder = await createFolder();
    await using runtime = await runtimeUnderTest({ codeCacheDir: folder.path }, installProbe);
    await runtime.untilState("running");
    expect(await readdir(folder.path)).toEqual([]);
  });

  test("leaves none, and uses none, if flows may write the folder", async () => {
    await using folder = await createFolder();
    const path = join(folder.path, "cache");
    await mkdir(path);
    const allow = { fileSystemWrite: [folder.path] };
    await using runtime = await runtimeUnderTest({ codeCacheDir: path, allow });
    await runtime.untilState("running");
    expect(await readdir(path)).toEqual([]);
  });

  test("that does not become ready leaves none", async () => {
    await using folder = await createFolder();
    const crash = { codeCacheDir: folder.path, entry: fixture("crash"), restart: { backoffMs: 60_000 } };
    await using runtime = await runtimeUnderTest(crash);
    await runtime.untilLogged(/restart/);
    await eventually(async () => expect(await readdir(folder.path)).toEqual([]));
  });

  test("starts if its folder does not exist", async () => {
    await using folder = await createFolder();
    const codeCacheDir = join(folder.path, "cache");
    await using runtime = await runtimeUnderTest({ codeCacheDir, entry: fixture("ready") });
    await runtime.untilState("running");
    expect(runtime.status().message).toBeUndefined();
  });
});
