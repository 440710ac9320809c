// Writes the options in docs/configuration.md from the schema of the options: `npm run docs`.
import { readFile, writeFile } from "node:fs/promises";
import * as z from "zod";
import { settings } from "../src/cli/option-flags.ts";
import { parseOptions } from "../src/options/parse.ts";
import { optionsSchema } from "../src/options/schema.ts";

export const pageUrl = new URL("../docs/configuration.md", import.meta.url);

const [begin, end] = ["<!-- options -->\n", "<!-- /options -->"];

/** The page with the list of the current options. */
export function withOptions(page: string): string {
  const [before, rest] = page.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) {
    throw new Error("docs/configuration.md has no list of the options");
  }
  const fields = Object.entries(optionsSchema.shape as Record<string, z.core.$ZodType>);
  const [single, groups] = partition(fields.map(([key, field]) => items(field, key)));
  const parts = [single.flat(), ...groups].map((lines) => `${lines.join("\n")}\n`);
  return `${before}${begin}\n${parts.join("\n")}\n${end}${after}`;
}

/** Lists of one option, and lists of several. */
function partition(lists: readonly string[][]): [string[][], string[][]] {
  return [lists.filter(({ length }) => length === 1), lists.filter(({ length }) => length > 1)];
}

function items(schema: z.core.$ZodType, path: string): string[] {
  const { inner, fallback, optional, description } = open(schema);
  const set = settings.find((setting) => setting.path.join(".") === path);
  const item = (fallback: string) => {
    const by = set === undefined ? [] : [`\`--${set.flag}\``, `\`${set.variable}\``];
    const facts = [...(fallback === "" ? [] : [fallback]), ...by].join(", ");
    return `- **\`${path}\`**${facts === "" ? "" : ` (${facts})`}: ${description ?? ""}`;
  };
  if (inner instanceof z.ZodObject) {
    const fields = Object.entries(inner.shape as Record<string, z.core.$ZodType>).flatMap(([key, field]) =>
      items(field, `${path}.${key}`),
    );
    return description === undefined ? fields : [item(optional ? "" : "required"), ...fields];
  }
  const element = inner instanceof z.ZodArray ? open(inner.element).inner : undefined;
  const derived = path === "runtime.dir" ? parseOptions({ dataDir: "<dataDir>" }).runtime.dir : fallback;
  return [
    item(derived === undefined ? (optional ? "" : "required") : `\`${JSON.stringify(derived)}\``),
    ...(element instanceof z.ZodObject
      ? Object.entries(element.shape as Record<string, z.core.$ZodType>).flatMap(([key, field]) =>
          items(field, `${path}[].${key}`),
        )
      : []),
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
