import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { chooseEncoding, EditorFiles, type Encoding } from "../../src/editor/files.ts";
import { createFolder } from "../../../../test/store/builders.ts";
import { writeFiles } from "../../../runtime/test/planted-code.ts";

const content = "text ".repeat(1_000);

async function read(files: EditorFiles, path: string, encoding?: Encoding) {
  const file = await files.find(path);
  const found = file && (await files.open(file, encoding));
  const body = found && (await buffer(found.body));
  expect(body?.length).toBe(found?.bytes);
  return { body, encoding: found?.encoding };
}

test("a file is compressed once, at the latest when it is asked for, and the results of other versions are removed", async () => {
  await using folder = await createFolder();
  const publicDir = join(folder.path, "public");
  const cacheDir = join(folder.path, "cache");
  await writeFiles(folder.path, {
    "public/a/file.js": content,
    "cache/1.0.0/old.br": "old",
    "cache/2.0.0/killed.br.1.tmp": "",
  });

  const files = new EditorFiles({ publicDir, cacheDir, version: "2.0.0" });
  await Promise.all([files.compressAll(), files.compressAll()]);
  const names = await readdir(join(cacheDir, "2.0.0"));
  expect(names).toEqual([expect.stringMatching(/^a%2Ffile\.js-5000-\d+\.br$/)]);
  const brotli = await read(files, "a/file.js", "br");
  expect([brotliDecompressSync(brotli.body ?? "").toString(), brotli.encoding]).toEqual([content, "br"]);
  const zipped = await read(files, "a/file.js", "gzip");
  expect([gunzipSync(zipped.body ?? "").toString(), zipped.encoding]).toEqual([content, "gzip"]);
  expect((await read(files, "a/file.js")).body?.toString()).toBe(content);
  expect(await readdir(cacheDir)).toEqual(["2.0.0"]);
  expect((await readdir(join(cacheDir, "2.0.0"))).length).toBe(2);

  // What is kept is used.
  await writeFile(join(cacheDir, "2.0.0", names[0] ?? ""), "kept");
  const next = new EditorFiles({ publicDir, cacheDir, version: "2.0.0" });
  await next.compressAll();
  expect((await read(next, "a/file.js", "br")).body?.toString()).toBe("kept");
});

test("a file that has changed is compressed again, and has another validator", async () => {
  await using folder = await createFolder();
  await writeFiles(folder.path, { "public/file.js": content });
  const options = { publicDir: join(folder.path, "public"), cacheDir: join(folder.path, "cache"), version: "2.0.0" };
  const files = new EditorFiles(options);
  const before = await files.find("file.js");
  await read(files, "file.js", "br");
  await writeFiles(folder.path, { "public/file.js": `${content}changed` });
  const after = await files.find("file.js");
  expect(after?.etag).not.toBe(before?.etag);
  const { body } = await read(files, "file.js", "br");
  expect(brotliDecompressSync(body ?? "").toString()).toBe(`${content}changed`);
});

test("disposing skips what is not compressed yet, and nothing is written afterwards", async () => {
  await using folder = await createFolder();
  await writeFiles(folder.path, { "public/a.js": content, "public/b.js": content, "public/c.js": content });
  const cacheDir = join(folder.path, "cache");
  const files = new EditorFiles({ publicDir: join(folder.path, "public"), cacheDir, version: "2.0.0" });
  const compressed = files.compressAll();
  const { body } = await read(files, "a.js", "br");
  expect(body?.length).toBeLessThan(content.length);
  await files[Symbol.asyncDispose]();
  const names = await readdir(join(cacheDir, "2.0.0"));
  await compressed;
  expect((await read(files, "c.js", "gzip")).encoding).toBeUndefined();
  expect(await readdir(join(cacheDir, "2.0.0"))).toEqual(names);
  expect(names.filter((name) => name.endsWith(".tmp"))).toEqual([]);
});

test("nothing is compressed where the results can't be kept", async () => {
  await using folder = await createFolder();
  await writeFiles(folder.path, { "public/file.js": content });
  const publicDir = join(folder.path, "public");
  const files = new EditorFiles({ publicDir, cacheDir: join(publicDir, "file.js", "cache"), version: "2.0.0" });
  await files.compressAll();
  const { body, encoding } = await read(files, "file.js", "br");
  expect([body?.toString(), encoding]).toEqual([content, undefined]);
});

test("only files of the folder are served, and only texts of some size are compressed", async () => {
  await using folder = await createFolder();
  const text = "x".repeat(2_000);
  await writeFiles(folder.path, {
    "secret.js": text,
    "public/a.js": text,
    "public/b.JS": text,
    "public/short.js": "x".repeat(100),
    "public/a.png": text,
    "public/a.woff2": text,
  });
  const options = { publicDir: join(folder.path, "public"), cacheDir: join(folder.path, "cache"), version: "1" };
  const files = new EditorFiles(options);
  const encodings: unknown[] = [];
  for (const path of ["a.js", "b.JS", "short.js", "a.png", "a.woff2"]) {
    encodings.push((await read(files, path, "gzip")).encoding);
  }
  expect(encodings).toEqual(["gzip", "gzip", undefined, undefined, undefined]);
  for (const path of ["../secret.js", "absent.js", "", "constructor"]) {
    expect(await files.find(path)).toBeUndefined();
  }
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
