import { join } from "node:path";
import type { Fields } from "@flowgate/base/fields";
import { readText } from "@flowgate/base/read-text";
import { isObject, mergeFields } from "../merge-fields.ts";
import { defaultLanguage } from "./template.ts";

/** The messages of a namespace: a file of this name in a folder for each language. */
export type CatalogFiles = { readonly dir: string; readonly file: string };

const maxBytes = 4 * 1024 * 1024;

/** Returns a language that can be the name of a folder; the default one if it is not valid. */
export function readLanguage(text: string | null | undefined): string {
  return text != null && /^[a-z]{2,3}(?:-[a-z]{2,8})?$/i.test(text) ? text : defaultLanguage;
}

/**
 * Reads the messages of a language as Node-RED merges them (`readFile` in @node-red/util's i18n.js): what it lacks is that of the base
 * language (`de` of `de-CH`), and then of the default one. Undefined if there are none for the language.
 */
export async function readCatalog(files: CatalogFiles, language: string): Promise<Fields | undefined> {
  const [base = language] = language.split("-", 1);
  const names = [...new Set([language, base])];
  const found = (await Promise.all(names.map((name) => readMessages(files, name)))).filter(
    (each) => each !== undefined,
  );
  if (found.length === 0) {
    return undefined;
  }
  const others = language === defaultLanguage ? [] : [await readMessages(files, defaultLanguage)];
  return [...found, ...others].reduce<Fields>((merged, each) => mergeFields(each ?? {}, merged), {});
}

async function readMessages({ dir, file }: CatalogFiles, language: string): Promise<Fields | undefined> {
  const text = await readText(join(dir, language, file), maxBytes);
  try {
    const value: unknown = JSON.parse(text?.replace(/^\uFEFF/, "") ?? "");
    return isObject(value) ? migrateCatalog(value) : undefined;
  } catch {
    // There is none for this language, or it is malformed.
    return undefined;
  }
}

/** Plural forms are written `key_plural` in files, and the editor's i18next reads `key_other`. */
function migrateCatalog(catalog: Fields): Fields {
  const entries = Object.entries(catalog).map(([key, value]): [string, unknown] => [
    key.replace(/_plural$/, "_other"),
    isObject(value) ? migrateCatalog(value) : value,
  ]);
  return Object.fromEntries(entries);
}
