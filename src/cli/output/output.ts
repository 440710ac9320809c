import { styleText } from "node:util";
import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import Table from "cli-table3";
import { printable, printableLines } from "../printable.ts";
import type { OutputFormat, Serializer } from "./serialize.ts";

export type Style = Parameters<typeof styleText>[0];

/** Text that is shown in a style. */
export type Styled = { readonly style: Style; readonly text: string };

/** A value in a table or a list of fields. Its text may be that of others: it is escaped. */
export type Cell = string | Styled | readonly (string | Styled)[];

/** `full`: nothing is to be shortened. */
export async function createOutput(format: OutputFormat | undefined, full = false): Promise<Output> {
  // Loaded only for programs.
  const serializer = format === undefined ? undefined : await (await import("./serialize.ts")).createSerializer(format);
  return new Output(format, process.stdout.isTTY && !full, serializer);
}

/** Prints the results of commands on stdout: as text for people, or as JSON or YAML for programs. */
export class Output {
  /** Undefined: for people. */
  readonly format: OutputFormat | undefined;
  /** Whether long values are to be shortened: a person reads them at a terminal. */
  readonly isShortened: boolean;
  readonly #serializer: Serializer | undefined;
  readonly #members: Readonly<Record<string, unknown>>;

  constructor(
    format: OutputFormat | undefined,
    isShortened: boolean,
    serializer: Serializer | undefined,
    members: Readonly<Record<string, unknown>> = {},
  ) {
    this.format = format;
    this.isShortened = isShortened;
    this.#serializer = serializer;
    this.#members = members;
  }

  /** The same output, with these further members in each message for programs. */
  with(members: Readonly<Record<string, unknown>>): Output {
    return new Output(this.format, this.isShortened, this.#serializer, { ...this.#members, ...members });
  }

  /** Prints a message: for programs as the REST API has it, with these further members. */
  message<D extends DescMessage>(
    schema: D,
    message: MessageShape<D>,
    text: () => string,
    more: Readonly<Record<string, unknown>> = {},
  ): void {
    this.#print(text, ({ toJson }) => ({ ...(toJson(schema, message) as object), ...more, ...this.#members }));
  }

  /** Prints one message of a list or stream: for programs as a line of JSON, or a YAML document. Nothing, if its text is empty. */
  item<D extends DescMessage>(schema: D, message: MessageShape<D>, text: () => string): void {
    const serializer = this.#serializer;
    const shown =
      serializer === undefined ? printableLines(text()) : serializer.formatItem(serializer.toJson(schema, message));
    if (shown !== "") {
      process.stdout.write(`${shown}\n`);
    }
  }

  /** Prints several messages: for programs as the members of one object. */
  messages(parts: Readonly<Record<string, readonly [DescMessage, Message]>>, text: () => string): void {
    this.#print(text, ({ toJson }) =>
      Object.fromEntries(Object.entries(parts).map(([key, [schema, message]]) => [key, toJson(schema, message)])),
    );
  }

  /** Prints a value that is not a message. */
  value(value: unknown, text: () => string): void {
    this.#print(text, () => value);
  }

  #print(text: () => string, toValue: (serializer: Serializer) => unknown): void {
    const serializer = this.#serializer;
    const shown = serializer === undefined ? printableLines(text()) : serializer.format(toValue(serializer));
    process.stdout.write(`${shown}\n`);
  }

  /** Names and their values, one in each line. Those without a value are left out. */
  fields(rows: readonly (readonly [name: string, value: Cell])[]): string {
    const shown = rows.map(([name, value]) => [this.style("bold", name), this.#show(value)]);
    return align(shown.filter(([, value]) => value !== ""));
  }

  /** A table without borders. */
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
    return align([
      head.map((title) => this.style("bold", title)),
      ...rows.map((row) => row.map((cell) => this.#show(cell))),
    ]);
  }

  #show(cell: Cell): string {
    return [cell]
      .flat()
      .map((part) => (typeof part === "string" ? printable(part) : this.style(part.style, printable(part.text))))
      .join("");
  }

  /** Text in this style, if the terminal shows colours. */
  style(style: Style, text: string): string {
    return text === "" ? "" : styleText(style, text, { stream: process.stdout });
  }
}

function align(rows: readonly (readonly string[])[]): string {
  const table = new Table({ chars: noBorders, style: { "padding-left": 0, "padding-right": 2, head: [] } });
  table.push(...rows.map((row) => [...row]));
  return table.toString().replaceAll(/ +$/gm, "");
}

const noBorders = Object.fromEntries(
  ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right", "left", "left-mid"]
    .concat(["mid", "mid-mid", "right", "right-mid", "middle"])
    .map((name) => [name, ""]),
);
