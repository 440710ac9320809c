import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A file of an example, as text. */
export function readExample(path: string): Promise<string> {
  return readFile(join(root, "examples", path), "utf8");
}

export type Example = AsyncDisposable & { readonly folder: string };

/** A copy of an example with the .proto files as its README says, for what its commands write. */
export async function copyExample(name: string): Promise<Example> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-example-"));
  await cp(join(root, "examples", name), folder, { recursive: true });
  for (const source of ["proto", "packages/gateway/proto"]) {
    await cp(join(root, source), join(folder, "proto"), { recursive: true });
  }
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

/** The code of a Markdown file in this language, in order. */
export function codeBlocks(markdown: string, language: string): string[] {
  const pattern = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms");
  return [...markdown.matchAll(pattern)].map(([, code = ""]) => code);
}
