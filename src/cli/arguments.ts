import { parseArgs } from "node:util";
import { usageFailure } from "./failure.ts";
import { closestMatch } from "./closest-match.ts";
import { settings } from "./settings.ts";

export type Flags = ReadonlyMap<string, string>;

export type Command =
  | { readonly kind: "start"; readonly flags: Flags }
  | { readonly kind: "backup" | "restore"; readonly file: string; readonly flags: Flags }
  | { readonly kind: "hash-password" }
  | { readonly kind: "help" }
  | { readonly kind: "version" };

const commands = ["start", "backup", "restore", "hash-password", "help"] as const;
const allFlags = ["config", ...settings.map(({ flag }) => flag)];
/** All that matters to those that copy the store. */
const copyFlags = ["config", "data-dir", "store"];
const options = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "V" },
  ...Object.fromEntries(allFlags.map((flag) => [flag, { type: "string" } as const])),
} as const;

/** Reads the command line. Throws a CliFailure that names what it does not know, and what is near it. */
export function parseArguments(argv: readonly string[]): Command {
  // Not strict: parseArgs would say what is wrong, but neither what is near nor how to go on.
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string>();
  const words = tokens.flatMap((token) => (token.kind === "positional" ? [token.value] : []));
  const [command = "start"] = words;
  const valueFlags = command === "backup" || command === "restore" ? copyFlags : allFlags;
  for (const token of tokens) {
    if (token.kind === "option") {
      flags.set(token.name, readFlag(token, valueFlags));
    }
  }
  if (flags.has("help")) {
    return { kind: "help" };
  }
  if (flags.has("version")) {
    return { kind: "version" };
  }
  return toCommand(words, flags);
}

type OptionToken = { name: string; rawName: string; value?: string | undefined; inlineValue?: boolean | undefined };

function readFlag({ name, rawName, value, inlineValue }: OptionToken, valueFlags: readonly string[]): string {
  if (name === "help" || name === "version") {
    if (value !== undefined) {
      throw usageFailure(`${rawName} takes no value.`);
    }
    return "";
  }
  if (!valueFlags.includes(name)) {
    // One that other commands have is no mistake in spelling.
    const near = allFlags.includes(name) ? [] : [...valueFlags, "help", "version"].map((flag) => `--${flag}`);
    throw usageFailure(`There is no flag ${rawName}.${meant(`--${name}`, near)}`);
  }
  if (value === undefined || value === "" || (inlineValue !== true && value.startsWith("-"))) {
    throw usageFailure(`${rawName} needs a value.`);
  }
  return value;
}

function toCommand([name = "start", ...rest]: readonly string[], flags: Flags): Command {
  const kind = commands.find((command) => command === name);
  if (kind === undefined) {
    throw usageFailure(`There is no command ${name}.${meant(name, [...commands, "--version"])}`);
  }
  if (kind === "hash-password" && rest.length + flags.size > 0) {
    throw usageFailure(
      "hash-password takes no arguments: others on this machine could see them. It asks, or reads a line.",
    );
  }
  if (kind === "backup" || kind === "restore") {
    const [file] = rest;
    if (file === undefined || rest.length > 1) {
      throw usageFailure(`${kind} needs the path of one file.`);
    }
    return { kind, file, flags };
  }
  if (rest.length > 0) {
    throw usageFailure(`${kind} takes no arguments besides flags.`);
  }
  return kind === "start" ? { kind, flags } : { kind };
}

function meant(word: string, words: readonly string[]): string {
  const near = closestMatch(word, words);
  return near === undefined ? "" : ` Did you mean ${near}?`;
}
