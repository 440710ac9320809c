/** Formats JSON values as YAML 1.2. */
export function formatYaml(value: unknown): string {
  return `${formatNode(value, "").trimStart()}\n`;
}

/** A node after `key:` or `-`: on the same line with a space before it, or on lines of its own. */
function formatNode(value: unknown, indent: string): string {
  if (Array.isArray(value) && value.length > 0) {
    return value.map((item) => `\n${indent}-${startOnSameLine(formatNode(item, `${indent}  `))}`).join("");
  }
  if (isObject(value) && Object.keys(value).length > 0) {
    return Object.entries(value)
      .map(([key, each]) => `\n${indent}${formatKey(key)}:${formatNode(each, childIndent(each, indent))}`)
      .join("");
  }
  return typeof value === "string" ? ` ${formatString(value, indent)}` : ` ${JSON.stringify(value)}`;
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Lists are not indented below their key. */
const childIndent = (value: unknown, indent: string): string => (Array.isArray(value) ? indent : `${indent}  `);

/** The first line of a mapping or list follows the `-` of its item. */
function startOnSameLine(node: string): string {
  return node.startsWith("\n") ? ` ${node.trimStart()}` : node;
}

/** Words that are no string without quotes, in YAML 1.1 or 1.2. */
const reserved = /^(?:true|false|yes|no|on|off|y|n|null)$/i;

function isPlain(text: string): boolean {
  return /^[A-Za-z_$/](?:[\w$/{}.+*()-]| (?=[\w/(]))*$/.test(text) && !reserved.test(text);
}

function formatKey(key: string): string {
  // A colon begins a value only before a space.
  return isPlain(key.replaceAll(/:(?=\w)/g, "")) ? key : JSON.stringify(key);
}

function formatString(text: string, indent: string): string {
  if (isPlain(text)) {
    return text;
  }
  // The strings of JSON are also double-quoted strings of YAML.
  // oxlint-disable-next-line no-control-regex
  return !text.includes("\n") || /^\s|\s$|[^\n\u0020-\u007e\u00a0-\ud7ff\ue000-\ufefe]/.test(text)
    ? JSON.stringify(text)
    : `|-\n${text.replaceAll(/^(?=.)/gm, indent)}`;
}
