import type { DebugEvent } from "../../../gen/flowgate/v1/events_pb.ts";

/**
 * The value of a debug message for people: JSON, in which `undefined`, `NaN`, `123n`, `Map(1) {"a" => 1}` and others that JSON lacks are
 * written as in JavaScript. Values that are not encoded, or were cut, are returned as they are. `indent`: the spaces of each level; 0
 * writes one line.
 */
export function formatDebugValue({ format, value }: Pick<DebugEvent, "format" | "value">, indent = 0): string {
  switch (format) {
    case "undefined":
    case "null":
      return format;
    case "function":
      return value;
    case "bigint":
      return `${value}n`;
    default:
  }
  const bytes = /^buffer\[(\d+)\]$/.exec(format);
  if (bytes !== null) {
    return formatBytes(value.match(/../g) ?? [], Number(bytes[1]));
  }
  if (format.startsWith("string[") || !/^\s*[[{]/.test(value)) {
    return value;
  }
  try {
    const decoded: unknown = JSON.parse(value);
    return isEncoded(decoded) && decoded["type"] === "error"
      ? formatError(decoded["data"])
      : write(decoded, " ".repeat(indent), "\n");
  } catch (error) {
    // It was cut, or has thousands of levels.
    if (error instanceof SyntaxError || error instanceof RangeError) {
      return value;
    }
    throw error;
  }
}

type Encoded = Readonly<Record<string, unknown>>;

function isEncoded(value: unknown): value is Encoded {
  return typeof value === "object" && value !== null && "__enc__" in value && value.__enc__ === true;
}

/** `line` is a line break with the indentation of the value. */
function write(value: unknown, indent: string, line: string): string {
  if (isEncoded(value)) {
    return writeEncoded(value, indent, line);
  }
  if (Array.isArray(value)) {
    return writeItems(value, value.length, indent, line);
  }
  if (typeof value === "object" && value !== null) {
    const colon = indent === "" ? ":" : ": ";
    const inner = line + indent;
    const properties = Object.entries(value).map(
      ([key, item]) => `${JSON.stringify(key)}${colon}${write(item, indent, inner)}`,
    );
    return enclose("{", properties, "}", indent, line);
  }
  return JSON.stringify(value) ?? "undefined";
}

function writeEncoded({ type, data, length }: Encoded, indent: string, line: string): string {
  switch (type) {
    case "undefined":
      return type;
    case "number":
    case "regexp":
      return String(data);
    case "bigint":
      return `${String(data)}n`;
    case "function":
    case "internal":
      return `[${type}]`;
    case "error":
      return `[${nameError(data)}]`;
    case "Buffer":
      return formatBytes(
        asArray(data).map((byte) => Number(byte).toString(16).padStart(2, "0")),
        asCount(length, data),
      );
    case "set":
      return `Set(${asCount(length, data)}) ${writeItems(asArray(data), asCount(length, data), indent, line, "{", "}")}`;
    case "map": {
      const inner = line + indent;
      const entries = Object.entries(Object(data) as object);
      const items = entries.map(([key, item]) => `${JSON.stringify(key)} => ${write(item, indent, inner)}`);
      const count = typeof length === "number" ? length : items.length;
      return `Map(${count}) ${enclose("{", withRest(items, count), "}", indent, line)}`;
    }
    default: {
      // An array that was cut, or a typed one, whose items can be encoded again.
      const items = isEncoded(data) ? data["data"] : data;
      if (!Array.isArray(items)) {
        return `[${String(type)}]`;
      }
      const name = type === "array" ? "" : `${String(type)} `;
      return name + writeItems(items, asCount(length, items), indent, line);
    }
  }
}

function asArray(data: unknown): readonly unknown[] {
  return Array.isArray(data) ? data : [];
}

/** The number of items, also of those that are missing. */
function asCount(length: unknown, data: unknown): number {
  return typeof length === "number" ? length : asArray(data).length;
}

function writeItems(
  items: readonly unknown[],
  count: number,
  indent: string,
  line: string,
  open = "[",
  close = "]",
): string {
  const inner = line + indent;
  const written = items.map((item) => write(item, indent, inner));
  return enclose(open, withRest(written, count), close, indent, line);
}

function withRest(written: readonly string[], count: number): readonly string[] {
  const rest = count - written.length;
  return rest > 0 ? [...written, `… ${rest} more`] : written;
}

function enclose(open: string, parts: readonly string[], close: string, indent: string, line: string): string {
  return indent === "" || parts.length === 0
    ? `${open}${parts.join(",")}${close}`
    : `${open}${line}${indent}${parts.join(`,${line}${indent}`)}${line}${close}`;
}

function formatBytes(bytes: readonly string[], count: number): string {
  const rest = count - bytes.length;
  return `<${["Buffer", ...bytes, ...(rest > 0 ? [`… ${rest} more bytes`] : [])].join(" ")}>`;
}

function formatError(data: unknown): string {
  const { stack, cause } = Object(data) as Encoded;
  const name = nameError(data);
  const text = typeof stack === "string" && stack !== "" ? stack : name;
  // The stack has neither a name nor a message that were changed later.
  const shown = text.startsWith(name) ? text : `${name}\n${text}`;
  return typeof cause === "string" ? `${shown}\ncause: ${cause}` : shown;
}

function nameError(data: unknown): string {
  const { name, message, code } = Object(data) as Encoded;
  const text = [name, message].filter((part) => typeof part === "string" && part !== "").join(": ");
  const hasCode = typeof code === "string" || typeof code === "number";
  return `${text === "" ? "error" : text}${hasCode ? ` (${code})` : ""}`;
}
