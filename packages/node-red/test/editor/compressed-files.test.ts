import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { CompressedFiles, chooseEncoding } from "../../src/editor/compressed-files.ts";
import { createFolder } from "../../../../test/store/builders.ts";
import { writeFiles } from "../../../../test/runtime/planted-code.ts";

const content = "text ".repeat(1_000);

async function read(files: CompressedFiles, path: string, encoding: "br" | "gzip"): Promise<Buffer | undefined> {
  const found = await files.find(path, "hash", encoding);
  const compressed = found && (await readFile(found.path));
  expect(compressed?.length).toBe(found?.bytes);
  return compressed;
}

test("a file is compressed once, at the latest when it is asked for, and the results of other versions are removed", async () => {
  await using folder = await createFolder();
  const cacheDir = join(folder.path, "cache");
  const file = join(folder.path, "file.js");
  await writeFiles(folder.path, { "file.js": content, "cache/1.0.0/old.br": "old", "cache/2.0.0/killed.br.1.tmp": "" });

  const files = new CompressedFiles({ cacheDir, version: "2.0.0" });
  await Promise.all([files.add(file, "hash", "br"), files.add(file, "hash", "br")]);
  expect(await readdir(join(cacheDir, "2.0.0"))).toEqual(["hash.br"]);
  expect(brotliDecompressSync((await read(files, file, "br")) ?? "").toString()).toBe(content);
  expect(gunzipSync((await read(files, file, "gzip")) ?? "").toString()).toBe(content);
  expect(await readdir(cacheDir)).toEqual(["2.0.0"]);
  expect((await readdir(join(cacheDir, "2.0.0"))).toSorted()).toEqual(["hash.br", "hash.gzip"]);

  // What is kept is used.
  await writeFile(join(cacheDir, "2.0.0", "hash.br"), "kept");
  const next = new CompressedFiles({ cacheDir, version: "2.0.0" });
  await next.add(file, "hash", "br");
  expect((await read(next, file, "br"))?.toString()).toBe("kept");
});

test("nothing is compressed where the results can't be kept", async () => {
  await using folder = await createFolder();
  const file = join(folder.path, "file.js");
  await writeFile(file, content);
  const files = new CompressedFiles({ cacheDir: join(file, "cache"), version: "2.0.0" });
  await files.add(file, "hash", "br");
  expect(await files.find(file, "hash", "br")).toBeUndefined();
  expect(await readFile(file, "utf8")).toBe(content);
});

test("only texts of some size are compressed", () => {
  expect([
    CompressedFiles.accepts("a.js", 2_000),
    CompressedFiles.accepts("a.JS", 2_000),
    CompressedFiles.accepts("a.js", 100),
    CompressedFiles.accepts("a.png", 2_000),
    CompressedFiles.accepts("a.woff2", 2_000),
  ]).toEqual([true, true, false, false, false]);
});

test.each([
  [undefined, undefined],
  ["", undefined],
  ["gzip, deflate, br, zstd", "br"],
  ["gzip, deflate", "gzip"],
  ["br;q=0, GZIP;q=0.5", "gzip"],
  ["br; q=0.0", undefined],
  ["x-br", undefined],
])("Accept-Encoding %j selects %j", (header, encoding) => {
  expect(chooseEncoding(header)).toBe(encoding);
});
