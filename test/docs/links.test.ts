import { existsSync, globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { root } from "../packaging/stage.ts";

const folders = ["docs", "deploy", "examples", "packages/*"];
const documents = ["*.md", ...folders.flatMap((folder) => [`${folder}/*.md`, `${folder}/{docs,*}/README.md`])].flatMap(
  (pattern) => globSync(pattern, { cwd: root, exclude: ["**/node_modules", "**/dist"] }),
);

/** Documents that name files of the repository in code spans. */
const maps = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md"];

const withoutCode = (text: string): string => text.replaceAll(/^```.*?^```$/gms, "");

const read = (document: string): Promise<string> => readFile(join(root, document), "utf8");

/** The anchors that GitHub gives to headings. */
function anchorsOf(text: string): Set<string> {
  const headings = [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** The links to files and headings of the repository that do not exist. */
async function findBroken(document: string, text: string): Promise<string[]> {
  const broken: string[] = [];
  for (const [, link = ""] of withoutCode(text).matchAll(/\]\(((?!https?:)[^)\s]+)\)/g)) {
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? document : normalize(join(dirname(document), path));
    const isFound =
      existsSync(join(root, target)) &&
      (anchor === undefined || anchorsOf(path === "" ? text : await read(target)).has(anchor));
    if (!isFound) {
      broken.push(link);
    }
  }
  return broken;
}

/** The code spans that name a file or folder of the repository that does not exist. `T/` is the folder of the gateway. */
function findMissing(text: string): string[] {
  const spans = [...text.matchAll(/`((?:T|bench|deploy|docs|packages|proto|scripts|src|test|torture)\/[\w./-]*)`/g)];
  return spans
    .map(([, path = ""]) => path)
    .filter((path) => !existsSync(join(root, path.replace(/^T\//, "packages/gateway/src/"))));
}

test.each(documents)("%s links to files and headings that exist", async (document) => {
  expect(await findBroken(document, await read(document))).toEqual([]);
});

test.each(maps)("%s names files and folders that exist", async (document) => {
  const text = await read(document);
  expect(findMissing(text)).toEqual([]);
  expect(text).toMatch(/`src\//);
});

test("links and files that do not exist are found", async () => {
  const text =
    "# One heading\n[a](#one-heading) [b](#another) [c](README.md#run) [d](lost.md) `src/app/flowgate.ts` `T/lost.ts`";
  expect(await findBroken("ARCHITECTURE.md", text)).toEqual(["#another", "lost.md"]);
  expect(findMissing(text)).toEqual(["T/lost.ts"]);
});
