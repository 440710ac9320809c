import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import * as adapters from "../src/adapters/node/index.ts";
import * as client from "../src/client/index.ts";
import * as gateway from "../src/index.ts";

const folder = join(import.meta.dirname, "..");
const documents = (await readdir(join(folder, "docs"))).filter((name) => name.endsWith(".md"));
const names = ["README.md", ...documents.map((name) => `docs/${name}`)];
const pages = new Map(
  await Promise.all(
    names.map(async (name) => [resolve(folder, name), await readFile(join(folder, name), "utf8")] as const),
  ),
);

const withoutCode = (text: string): string => text.replaceAll(/^```.*?^```$/gms, "");

/** The anchors that GitHub gives to headings. */
function anchorsOf(text: string): Set<string> {
  return new Set(
    [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe.each(names)("%s", (name) => {
  const path = resolve(folder, name);
  const text = withoutCode(pages.get(path) ?? "");
  const definitions = new Set([...text.matchAll(/^\[([\w-]+)\]: /gm)].map(([, label]) => label));

  test("links to pages and headings that there are", () => {
    const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g), ...text.matchAll(/^\[[\w-]+\]: (\S+)$/gm)].map(
      ([, target = ""]) => target,
    );
    expect(targets).not.toEqual([]);
    const broken = targets.filter((target) => {
      if (/^https:\/\/\S+$/.test(target)) {
        return false;
      }
      const [file = "", anchor] = target.split("#");
      if (file.endsWith(".svg")) {
        return !existsSync(resolve(path, "..", file));
      }
      const page = pages.get(file === "" ? path : resolve(path, "..", file));
      return page === undefined || (anchor !== undefined && !anchorsOf(page).has(anchor));
    });
    expect(broken).toEqual([]);
  });

  test("has a source for each label, and no other", () => {
    const labels = new Set([...text.matchAll(/\]\[([\w-]+)\]/g)].map(([, label]) => label));
    expect(labels).toEqual(definitions);
  });
});

/** The options that the reference has a row for, and the exports. */
const known = new Set([
  ...[...(pages.get(resolve(folder, "docs/reference.md")) ?? "").matchAll(/^\| `(\w+)` \|/gm)].map(([, row]) => row),
  ...[adapters, client, gateway].flatMap((module) => Object.keys(module)),
  // Of Connect and protobuf-es.
  "requestHeader",
  "responseHeader",
  "createFileRegistry",
  // Messages and fields of google.api.http.
  "HttpBody",
  "json_name",
]);

describe.each(names.filter((name) => basename(name).startsWith("from-")))("%s", (name) => {
  const text = pages.get(resolve(folder, name)) ?? "";

  test("names options that there are", () => {
    const [table = "", ...others] = text.match(/^\| .+ \| this package \|\n(?:\|.*\n)+/gm) ?? [];
    expect(others).toEqual([]);
    const cells = table
      .split("\n")
      .slice(2, -1)
      .map((row) => row.split(" | ").at(-1) ?? "");
    expect(cells.length).toBeGreaterThan(10);
    // Constants of the other gateway are in another case than options.
    const options = cells.flatMap((cell) =>
      [...cell.matchAll(/`([a-z]\w*)(?:\.\w+)*`/g)].map(([, option = ""]) => option),
    );
    expect(options.filter((option) => !known.has(option))).toEqual([]);
    expect(options.filter((option) => known.has(option)).length).toBeGreaterThan(5);
  });

  test("uses a preset that there is", () => {
    const [, preset = ""] = /\.\.\.presets\.(\w+)/.exec(text) ?? [];
    expect(Object.keys(gateway.presets)).toContain(preset);
  });
});
