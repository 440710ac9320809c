/** The HTML file of a node set or plugin, as the editor loads it. */
export type Template = {
  /** The node types that it defines. */
  readonly types: readonly string[];
  /** Everything but the help texts. */
  readonly main: string;
  /** The help texts, by language. */
  readonly help: ReadonlyMap<string, string>;
};

export const defaultLanguage = "en-US";

const maxTypes = 1_000;

/**
 * Splits a template as Node-RED does (`loadNodeTemplate` in @node-red/registry), in time that is linear in its length: modules can contain
 * any text.
 */
export function parseTemplate(text: string): Template {
  const types = new Set<string>();
  const help = new Map<string, string>();
  let main = "";
  let keptUntil = 0;
  const opening = /<script\s/gi;
  for (let match = opening.exec(text); match !== null; match = opening.exec(text)) {
    const end = text.indexOf(">", opening.lastIndex);
    if (end === -1) {
      break;
    }
    const attributes = text.slice(opening.lastIndex - 1, Math.min(end, opening.lastIndex + maxAttributeChars));
    opening.lastIndex = end + 1;
    const type = readAttribute(attributes, "data-template-name");
    if (type !== undefined && types.size < maxTypes) {
      types.add(type);
    }
    if (!/\sdata-help-name=/i.test(attributes)) {
      continue;
    }
    const closing = /<\/script>/gi;
    closing.lastIndex = end;
    if (closing.exec(text) === null) {
      break;
    }
    const language = readAttribute(attributes, "data-lang") ?? defaultLanguage;
    help.set(language, (help.get(language) ?? "") + text.slice(match.index, closing.lastIndex));
    main += text.slice(keptUntil, match.index);
    keptUntil = closing.lastIndex;
    opening.lastIndex = keptUntil;
  }
  return { types: [...types], main: main + text.slice(keptUntil), help };
}

const maxAttributeChars = 4_000;

function readAttribute(attributes: string, name: string): string | undefined {
  const pattern = new RegExp(`\\s${name}\\s{0,9}=\\s{0,9}['"]([^'"]{1,200})['"]`, "i");
  return pattern.exec(attributes)?.[1];
}
