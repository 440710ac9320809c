import { type CredentialSets, visitCredentials } from "@flowgate/flows";
import { type Automaton, compileAutomaton, step } from "./automaton.ts";
import { type Form, View, byteForms, gap, readBytes, readEscaped, readFormEncoded, readPercent } from "./views.ts";

/** Shorter values would also be found in texts that have nothing to do with them. */
const minChars = 4;

/** The lines of longer values, such as private keys, are found one by one. */
const minLineChars = 8;

/** The text of values with lines that are longer than this is not searched for as a whole: its lines are. */
const maxWholeChars = 4_096;

const replacement = "[redacted]";

/** The values of credentials, each of them once. */
export function valuesOf(sets: Iterable<CredentialSets>): Set<string> {
  const values = new Set<string>();
  for (const credentials of sets) {
    visitCredentials(credentials, (text) => {
      if (text.length >= minChars) {
        values.add(text);
      }
    });
  }
  return values;
}

export function compileValues(values: Iterable<string>): Automaton {
  const patterns = new Set<string>();
  for (const value of values) {
    const lines = value.split(/\r?\n/);
    if (lines.length === 1 || value.length <= maxWholeChars) {
      patterns.add(value).add(value.trim());
    }
    if (lines.length > 1) {
      lines.filter((line) => line.length >= minLineChars).forEach((line) => patterns.add(line));
    }
  }
  return compileAutomaton([...patterns].filter(({ length }) => length >= minChars).map((each) => Buffer.from(each)));
}

type Range = readonly [start: number, end: number];

/**
 * Replaces the values of credentials in texts, in the forms that docs/api.md lists. The time is linear in the text and does not depend on the
 * number of values.
 */
export class Redactor {
  readonly automata: readonly Automaton[];

  constructor(automata: readonly Automaton[]) {
    this.automata = automata.filter(({ bytes }) => bytes.length > 1);
  }

  /** Returns the text without the values. `isCut`: it may end within one. */
  redact(text: string, isCut: boolean): string {
    if (this.automata.length === 0 || text.length < minChars) {
      return text;
    }
    const bytes = Buffer.from(text);
    const found = this.#find(bytes, isCut);
    // The debug node and `inspect` shorten texts within them.
    for (const { start, end } of partsBeforeEllipses(bytes)) {
      for (const [first, last] of this.#find(bytes.subarray(start, end), true)) {
        found.push([start + first, start + last]);
      }
    }
    if (found.length === 0) {
      return text;
    }
    const ranges: Range[] = [];
    for (const [start, end] of found.toSorted(([, one], [, other]) => one - other)) {
      addRange(ranges, start, end);
    }
    let redacted = "";
    let from = 0;
    for (const [start, end] of ranges) {
      redacted += bytes.toString("utf8", from, start) + replacement;
      from = end;
    }
    return redacted + bytes.toString("utf8", from);
  }

  /** Returns the texts that change, with their replacements. */
  redactAll(texts: Iterable<string>, isCut: boolean): Map<string, string> {
    const changed = new Map<string, string>();
    for (const text of texts) {
      const redacted = this.redact(text, isCut);
      if (redacted !== text) {
        changed.set(text, redacted);
      }
    }
    return changed;
  }

  #find(bytes: Buffer, isCut: boolean): Range[] {
    if (bytes.length < minChars) {
      return [];
    }
    // The cut can also be within a character, whose half was replaced.
    const end = isCut && bytes.subarray(-3).equals(halfCharacter) ? bytes.length - 3 : bytes.length;
    readBytes(bytes.subarray(0, end), whole);
    const found: Range[] = [];
    const search = (view: View, isDecoded: boolean): void => {
      for (const automaton of this.automata) {
        for (const [start, last] of findIn(automaton, view, { bytes, isCut, isDecoded })) {
          found.push([start, isDecoded ? skipPadding(bytes, last) : last]);
        }
      }
    };
    for (const view of viewsOf(whole, bytes)) {
      search(view, false);
      for (const read of byteForms) {
        read(view, decoded);
        search(decoded, true);
      }
    }
    return found;
  }
}

/** The parts of a text that ... or … ends. */
function* partsBeforeEllipses(bytes: Buffer): Generator<{ readonly start: number; readonly end: number }> {
  let start = 0;
  for (let end = 0; end < bytes.length; end += 1) {
    const first = bytes[end];
    if ((first === dots[0] && isAt(dots, bytes, end)) || (first === ellipsis[0] && isAt(ellipsis, bytes, end))) {
      yield { start, end };
      end += 2;
      start = end + 1;
    }
  }
}

function isAt([, second, third]: Buffer, bytes: Buffer, at: number): boolean {
  return bytes[at + 1] === second && bytes[at + 2] === third;
}

const dots = Buffer.from("...");
const ellipsis = Buffer.from("…");

/** `EF BF BD` is U+FFFD. */
const halfCharacter = Buffer.from("\uFFFD");

// Allocated once: texts are redacted one after another.
const whole = new View();
const decoded = new View();
const layers: readonly View[] = [new View(), new View(), new View(), new View()];

/** JSON can be a text in JSON, and that in JSON again. */
const maxLayers = 3;

/** The text, and its content without each layer of escape sequences. */
function* viewsOf(text: View, bytes: Buffer): Generator<View> {
  yield text;
  yield* withoutEscapes(text, bytes.includes("\\") ? maxLayers : 0);
  for (const [read, mark] of urlForms) {
    if (bytes.includes(mark)) {
      const view = layers[maxLayers] as View;
      read(text, view);
      yield view;
      yield* withoutEscapes(view, 1);
    }
  }
}

const urlForms: readonly (readonly [Form, mark: string])[] = [
  [readPercent, "%"],
  [readFormEncoded, "+"],
];

function* withoutEscapes(view: View, max: number): Generator<View> {
  let source = view;
  for (const layer of layers.slice(0, max)) {
    readEscaped(source, layer);
    if (layer.length === source.length) {
      return;
    }
    yield layer;
    source = layer;
  }
}

/** Returns the position after Base64 padding. */
function skipPadding(bytes: Buffer, from: number): number {
  let end = from;
  while (bytes[end] === padding && end < from + 2) {
    end += 1;
  }
  return end;
}

const padding = 0x3d;

type Searched = {
  readonly bytes: Buffer;
  readonly isCut: boolean;
  /** True if several characters of the text stand for a byte. */
  readonly isDecoded: boolean;
};

function findIn(
  automaton: Automaton,
  { symbols, starts, ends, length }: View,
  { bytes, isCut, isDecoded }: Searched,
): Range[] {
  const { depths, matches, root } = automaton;
  const found: Range[] = [];
  let state = 0;
  let before = 0;
  for (let index = 0; index < length; index += 1) {
    const symbol = symbols[index] as number;
    if (symbol === gap) {
      state = 0;
      before = 0;
      continue;
    }
    before = state;
    state = state === 0 ? (root[symbol] as number) : step(automaton, state, symbol);
    const match = matches[state] as number;
    if (match !== 0) {
      addRange(found, starts[index - match + 1] as number, ends[index] as number);
    }
  }
  if (isCut) {
    // The cut can be within the characters of the last byte.
    const depth = Math.max(depths[state] as number, isDecoded ? (depths[before] as number) + 1 : 0);
    if (depth >= minChars) {
      addRange(found, starts[length - depth] as number, bytes.length);
    }
  }
  return found;
}

/** Adds a range that does not end before the earlier ones, and merges overlapping ranges. */
function addRange(ranges: Range[], start: number, end: number): void {
  let first = start;
  for (let last = ranges.at(-1); last !== undefined && last[1] > first; last = ranges.at(-1)) {
    first = Math.min(first, last[0]);
    ranges.pop();
  }
  ranges.push([first, end]);
}
