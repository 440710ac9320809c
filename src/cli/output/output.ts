import { styleText } from "node:util";
import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import Table from "cli-table3";
import { printableData, printableLines } from "./printable.ts";

/** Prints the results of commands on stdout. */
export type Output = {
  /** Undefined: for people. */
  readonly format: OutputFormat | undefined;
  /** Whether long values are to be shortened: a person reads them at a terminal. */
  readonly isShortened: boolean;
  /** Prints a message as JSON or YAML, as the REST API has it, if that was asked for, or else as text for people. */
  message<D extends DescMessage>(schema: D, message: MessageShape<D>, text: () => string): void;
  /** Prints several messages as the members of one object. */
  messages(parts: Readonly<Record<string, readonly [DescMessage, Message]>>, text: () => string): void;
  /** Prints a value that is not a message. */
  value(value: unknown, text: () => string): void;
  /** Names and their values, one in each line. Those without a value are left out. */
  fields(rows: readonly (readonly [name: string, value: string])[]): string;
  /** A table without borders. */
  table(head: readonly string[], rows: readonly (readonly string[])[]): string;
  /** Text in this style, if the terminal shows colours. */
  style(format: Parameters<typeof styleText>[0], text: string): string;
};

/** `full`: nothing is to be shortened. */
export async function createOutput(format: OutputFormat | undefined, full = false): Promise<Output> {
  const programs = format === undefined ? undefined : await loadSerializer(format);
  const style: Output["style"] = (format, text) => styleText(format, text, { stream: process.stdout });
  const print = (text: string): void => {
    process.stdout.write(`${text}\n`);
  };
  return {
    format,
    isShortened: process.stdout.isTTY && !full,
    value: (value, text) => print(programs?.serialize(value) ?? printableLines(text())),
    message: (schema, message, text) =>
      print(programs?.serialize(programs.toRestJson(schema, message)) ?? printableLines(text())),
    messages: (parts, text) => {
      const encode = programs?.toRestJson;
      const entries = Object.entries(parts).map(([key, [schema, message]]) => [key, encode?.(schema, message)]);
      print(programs?.serialize(Object.fromEntries(entries)) ?? printableLines(text()));
    },
    table: (head, rows) => align([head.map((title) => style("bold", title)), ...rows]),
    fields: (rows) =>
      align(rows.filter(([, value]) => value !== "").map(([name, value]) => [style("bold", name), value])),
    style,
  };
}

function align(rows: readonly (readonly string[])[]): string {
  const table = new Table({ chars: noBorders, style: { "padding-left": 0, "padding-right": 2, head: [] } });
  table.push(...rows.map((row) => [...row]));
  return table.toString().replaceAll(/ +$/gm, "");
}

/** Loads only what the format needs. */
async function loadSerializer(format: OutputFormat) {
  const { toRestJson } = await import("./rest-json.ts");
  if (format === "json") {
    return { toRestJson, serialize: (value: unknown) => printableData(JSON.stringify(value, null, 2)) };
  }
  const [{ Document }, { formatYaml }] = await Promise.all([import("yaml"), import("../yaml.ts")]);
  const toYaml = (value: unknown): string => formatYaml(new Document(value, { aliasDuplicateObjects: false }));
  return { toRestJson, serialize: (value: unknown) => toYaml(value).trimEnd() };
}

const noBorders = Object.fromEntries(
  ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right", "left", "left-mid"]
    .concat(["mid", "mid-mid", "right", "right-mid", "middle"])
    .map((name) => [name, ""]),
);

/** What -o prints for programs. */
export type OutputFormat = "json" | "yaml";
