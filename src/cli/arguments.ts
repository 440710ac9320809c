import { parseArgs } from "node:util";
import { usageFailure } from "./failure.ts";
import { closestMatch } from "./closest-match.ts";
import { settings } from "./settings.ts";

export type Flags = ReadonlyMap<string, string>;

export type Command =
  | { readonly kind: "start"; readonly flags: Flags }
  | { readonly kind: "backup" | "restore"; readonly file: string; readonly flags: Flags }
  | { readonly kind: "migrate"; readonly flags: Flags }
  | { readonly kind: "audit-verify"; readonly head: string | undefined; readonly flags: Flags }
  | { readonly kind: "hash-password" }
  | { readonly kind: "help" }
  | { readonly kind: "version" };

const commands = ["start", "backup", "restore", "migrate", "audit", "hash-password", "help"] as const;
const startFlags = ["config", ...settings.map(({ flag }) => flag)];
/** The flags of commands that open the store only. */
const storeFlags = ["config", "data-dir", "store"];
const migrateFlags = ["config", "data-dir", "from", "to"];
const allFlags = [...new Set([...startFlags, ...migrateFlags])];
const options = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "V" },
  ...Object.fromEntries(allFlags.map((flag) => [flag, { type: "string" } as const])),
} as const;

/** Parses the command line. Throws a CliFailure for an unknown command or flag, with the closest match. */
export function parseArguments(argv: readonly string[]): Command {
  // Not strict: the errors of parseArgs suggest neither a correction nor --help.
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string>();
  const positionals = tokens.flatMap((token) => (token.kind === "positional" ? [token.value] : []));
  const [command = "start"] = positionals;
  const valueFlags = flagsOf(command);
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
  return toCommand(positionals, flags);
}

function flagsOf(command: string): readonly string[] {
  switch (command) {
    case "backup":
    case "restore":
    case "audit":
      return storeFlags;
    case "migrate":
      return migrateFlags;
    default:
      return startFlags;
  }
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
    // A flag of another command is not a typo.
    const candidates = allFlags.includes(name) ? [] : [...valueFlags, "help", "version"].map((flag) => `--${flag}`);
    throw usageFailure(`Unknown flag ${rawName}.${suggest(`--${name}`, candidates)}`);
  }
  if (value === undefined || value === "" || (inlineValue !== true && value.startsWith("-"))) {
    throw usageFailure(`${rawName} requires a value.`);
  }
  return value;
}

function toCommand([name = "start", ...operands]: readonly string[], flags: Flags): Command {
  const kind = commands.find((command) => command === name);
  if (kind === undefined) {
    throw usageFailure(`Unknown command ${name}.${suggest(name, [...commands, "--version"])}`);
  }
  if (kind === "hash-password" && operands.length + flags.size > 0) {
    throw usageFailure(
      "hash-password takes no arguments, as other users of this machine could see them. It prompts, or reads a line from stdin.",
    );
  }
  if (kind === "backup" || kind === "restore") {
    const [file] = operands;
    if (file === undefined || operands.length > 1) {
      throw usageFailure(`${kind} requires the path of one file.`);
    }
    return { kind, file, flags };
  }
  if (kind === "audit") {
    const [action, head] = operands;
    if (action !== "verify" || operands.length > 2) {
      throw usageFailure("audit requires verify, and optionally a head that it printed earlier.");
    }
    return { kind: "audit-verify", head, flags };
  }
  if (operands.length > 0) {
    throw usageFailure(`${kind} takes no arguments other than flags.`);
  }
  if (kind === "migrate" && !flags.has("from") && !flags.has("to")) {
    throw usageFailure("migrate requires --from, --to or both: the URLs of the stores.");
  }
  return kind === "start" || kind === "migrate" ? { kind, flags } : { kind };
}

function suggest(word: string, candidates: readonly string[]): string {
  const near = closestMatch(word, candidates);
  return near === undefined ? "" : ` Did you mean ${near}?`;
}
