import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { readPackageManifest } from "../../src/modules/tarball.ts";
import { packFiles } from "./npm-registry.ts";
import { formatTar } from "./tar.ts";

const manifest = { name: "@scope/a", version: "1.2.3", "node-red": { nodes: { a: "a.js" } } };

test.each(["package", "other"])("reads the package.json of a package in the folder %s", async (folder) => {
  const files = { "a.js": "x".repeat(2_000), "lib/package.json": "{}", "package.json": JSON.stringify(manifest) };
  expect(await readPackageManifest(await packFiles(files, folder))).toEqual(manifest);
});

const manifestEntry = { path: "package/package.json", content: JSON.stringify(manifest) };
const packed = await packFiles({ "package.json": JSON.stringify(manifest), "a.js": "x".repeat(2_000) });

test.each<[string, Uint8Array]>([
  ["nothing", Buffer.alloc(0)],
  ["text", Buffer.from("a package")],
  ["compressed text", gzipSync("a package")],
  ["the beginning of a package", packed.subarray(0, 20)],
  ["a package that is compressed twice", gzipSync(packed)],
  ["a path that leaves the package", formatTar([{ path: "package/../../x", content: "" }, manifestEntry])],
  ["a device", formatTar([{ path: "package/x", type: "3" }, manifestEntry])],
  ["an entry of an unknown type", formatTar([{ path: "package/x", type: "Z" }, manifestEntry])],
  ["no package.json", await packFiles({ "a.js": "" })],
  ["a package.json deeper inside", await packFiles({ "lib/package.json": JSON.stringify(manifest) })],
  ["no JSON", await packFiles({ "package.json": "{" })],
  ["null", await packFiles({ "package.json": "null" })],
  ["no name", await packFiles({ "package.json": JSON.stringify({ version: "1.0.0" }) })],
  ["a path as the name", await packFiles({ "package.json": JSON.stringify({ name: "../a", version: "1.0.0" }) })],
  ["no version", await packFiles({ "package.json": JSON.stringify({ name: "a" }) })],
  ["a path as the version", await packFiles({ "package.json": JSON.stringify({ name: "a", version: "../1" }) })],
  [
    "a large package.json",
    await packFiles({ "package.json": JSON.stringify({ ...manifest, x: "x".repeat(2_000_000) }) }),
  ],
  ["zeros that never end", gzipSync(Buffer.alloc(10_000_000))],
])("finds none in %s", async (_, bytes) => {
  expect(await readPackageManifest(bytes)).toBeUndefined();
});
