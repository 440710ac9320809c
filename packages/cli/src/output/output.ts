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
  // Some terminals report no columns.
  const columns = full ? Infinity : process.stdout.columns || 80;
  return new Output(format, { isShortened: process.stdout.isTTY && !full, columns }, serializer);
}

/** Prints the results of commands on stdout: as text for people, or as JSON or YAML for programs. */
export class Output {
  /** Undefined: for people. */
  readonly format: OutputFormat | undefined;
  /** True if long values are to be shortened: a person reads them at a terminal. */
  readonly isShortened: boolean;
  readonly #columns: number;
  readonly #serializer: Serializer | undefined;
  readonly #members: Readonly<Record<string, unknown>>;

  constructor(
    format: OutputFormat | undefined,
    { isShortened, columns }: { readonly isShortened: boolean; readonly columns: number },
    serializer: Serializer | undefined,
    members: Readonly<Record<string, unknown>> = {},
  ) {
    this.format = format;
    this.isShortened = isShortened;
    this.#columns = columns;
    this.#serializer = serializer;
    this.#members = members;
  }

  /** The same output, with these further members in each message for programs. */
  with(members: Readonly<Record<string, unknown>>): Output {
    const size = { isShortened: this.isShortened, columns: this.#columns };
    return new Output(this.format, size, this.#serializer, { ...this.#members, ...members });
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

  /**
   * Names and their values, one in each line. Those without a value are left out. The values with the names in `shortened` are made
   * narrower if they do not fit the terminal, or 80 columns.
   */
  fields(rows: readonly (readonly [name: string, value: Cell])[], shortened: readonly string[] = []): string {
    const shown = rows.map(([name, value]) => [name, this.#show(value)] as const).filter(([, value]) => value !== "");
    const nameWidth = Math.max(...shown.map(([name]) => name.length)) + gap;
    const valueWidth = Number.isFinite(this.#columns) ? [Math.max(gap + 1, this.#columns - nameWidth + gap)] : [];
    const lines = shown.map(([name, value]) => {
      const widths = [nameWidth, ...(shortened.includes(name) ? valueWidth : [])];
      return createTable([[this.style("bold", name), value]], widths).toString();
    });
    return withoutPadding(lines.join("\n"));
  }

  /** A table without borders. The columns with the titles in `shortened` are made narrower if it does not fit the terminal, or 80 columns. */
  table(head: readonly string[], rows: readonly (readonly Cell[])[], shortened: readonly string[] = []): string {
    const titles = head.map((title) => this.style("bold", title));
    const shown = [titles, ...rows.map((row) => row.map((cell) => this.#show(cell)))];
    const minWidths = head.map((title) => (shortened.includes(title) ? title.length : Infinity));
    return withoutPadding(align(shown, { columns: this.#columns, minWidths }));
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

const gap = 2;

type Limits = {
  readonly columns: number;
  /** Of the columns of a table: Infinity for those that are not made narrower. */
  readonly minWidths: readonly number[];
};

function align(rows: readonly (readonly string[])[], limits: Limits): string {
  const table = createTable(rows);
  const text = table.toString();
  // The library has filled them in.
  const widths = table.options.colWidths.map((width) => (width ?? gap) - gap);
  const narrowed = narrow(widths, limits);
  const isNarrower = narrowed.some((width, at) => width !== widths[at]);
  const padded = narrowed.map((width) => width + gap);
  return isNarrower ? createTable(rows, padded).toString() : text;
}

function withoutPadding(text: string): string {
  return text.replaceAll(/ +$/gm, "");
}

/** The widest of these columns become as wide as the next one, and so on, until the table fits. */
function narrow(widths: readonly number[], { columns, minWidths }: Limits): number[] {
  const narrowed = [...widths];
  for (let excess = widths.reduce((sum, width) => sum + width + gap, -gap) - columns; excess > 0; excess -= 1) {
    const candidates = narrowed.map((width, at) => (width > (minWidths[at] ?? Infinity) ? width : 0));
    const widest = Math.max(...candidates);
    if (widest === 0) {
      break;
    }
    narrowed[candidates.lastIndexOf(widest)] = widest - 1;
  }
  return narrowed;
}

function createTable(rows: readonly (readonly string[])[], colWidths: number[] = []): Table.Table {
  const style = { "padding-left": 0, "padding-right": gap, head: [] };
  const table = new Table({ chars: noBorders, style, colWidths });
  table.push(...rows.map((row) => [...row]));
  return table;
}

const noBorders = Object.fromEntries(
  ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right", "left", "left-mid"]
    .concat(["mid", "mid-mid", "right", "right-mid", "middle"])
    .map((name) => [name, ""]),
);
