// Writes the table of docs/configuration.md from the schema of the options: `npm run docs`.
import { readFile, writeFile } from "node:fs/promises";
import * as z from "zod";
import { settings } from "../src/cli/service/option-flags.ts";
import { parseOptions } from "../src/options/parse.ts";
import { optionsSchema } from "../src/options/schema.ts";

export const pageUrl = new URL("../docs/configuration.md", import.meta.url);

const head = "| key | default | flag, variable | meaning |\n|---|---|---|---|\n";

/** The page with the table of the current options. */
export function withOptions(page: string): string {
  const [before, after] = page.split(head);
  if (before === undefined || after === undefined) {
    throw new Error("docs/configuration.md has no table of the options");
  }
  return `${before}${head}${rows(optionsSchema).join("\n")}${after.slice(after.indexOf("\n\n"))}`;
}

function rows(schema: z.core.$ZodType, path = ""): string[] {
  const { inner, fallback, optional, description } = open(schema);
  const set = settings.find((setting) => setting.path.join(".") === path);
  const by = set === undefined ? "" : `\`--${set.flag}\`, \`${set.variable}\``;
  const own = (fallback: string) => `| \`${path}\` | ${fallback} | ${by}${by && " "}| ${description ?? ""} |`;
  if (inner instanceof z.ZodObject) {
    const fields = Object.entries(inner.shape as Record<string, z.core.$ZodType>).flatMap(([key, field]) =>
      rows(field, path === "" ? key : `${path}.${key}`),
    );
    return description === undefined ? fields : [own(optional ? "absent" : "required"), ...fields];
  }
  const items = inner instanceof z.ZodArray ? open(inner.element).inner : undefined;
  const derived = path === "runtime.dir" ? parseOptions({ dataDir: "<dataDir>" }).runtime.dir : fallback;
  return [
    own(derived === undefined ? (optional ? "absent" : "required") : `\`${JSON.stringify(derived)}\``),
    ...(items instanceof z.ZodObject ? rows(items, `${path}[]`) : []),
  ];
}

/** What is inside optional, default and readonly; the outermost description counts. */
function open(schema: z.core.$ZodType) {
  let inner = schema;
  let fallback: unknown;
  let optional = false;
  let description = z.globalRegistry.get(schema)?.description;
  while (
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodReadonly
  ) {
    optional ||= inner instanceof z.ZodOptional;
    fallback ??= inner instanceof z.ZodDefault ? inner.def.defaultValue : undefined;
    inner = inner.unwrap();
    description ??= z.globalRegistry.get(inner)?.description;
  }
  return { inner, fallback, optional, description };
}

if (import.meta.main) {
  await writeFile(pageUrl, withOptions(await readFile(pageUrl, "utf8")));
}
