import { isUtf8 } from "node:buffer";
import { parseJson, RequestError } from "@flowgate/gateway/json";
import { type JsonPath, splitPath } from "@flowgate/gateway/json-path";
import { CliFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import { parseYaml, type Position, type Problem, type YamlDocument } from "../yaml.ts";

/** A file of flows, parsed but not validated. */
export type FlowSource = {
  /** Its path as the user knows it, or `<stdin>`. */
  readonly file: string;
  readonly value: unknown;
  /** The position of a value, or of its nearest ancestor in the file. */
  readonly positionOf: (path: JsonPath) => Position;
};

/** Deeper than any valid node. Bounds the recursion of the parser. */
const maxDepth = 100;

/**
 * Parses JSON or YAML. A file that has neither of their extensions is JSON if it begins as an array or an object. Throws a
 * FlowFilesFailure with all syntax errors, duplicate keys and integers that a double can't represent.
 */
export function parseSource(file: string, bytes: Uint8Array): FlowSource {
  if (!isUtf8(bytes)) {
    throw failure(file, [{ line: 1, column: 1, message: "is not UTF-8: save it as UTF-8" }]);
  }
  const text = new TextDecoder().decode(bytes);
  if (text.trim() === "") {
    throw failure(file, [{ line: 1, column: 1, message: "is empty: it must contain an array of nodes, [] for none" }]);
  }
  let yaml: YamlDocument | undefined;
  const document = (): YamlDocument => (yaml ??= parseYaml(text));
  return {
    file,
    value: isJson(file, text) ? parseJsonText(file, text, document) : parseYamlText(file, text, document()),
    positionOf: (path) => document().positionOf(path),
  };
}

function isJson(file: string, text: string): boolean {
  return /\.json$/i.test(file) || (!/\.ya?ml$/i.test(file) && /^\s*[[{]/.test(text));
}

/** The YAML parser, which is much slower, is used only to find positions. */
function parseJsonText(file: string, text: string, document: () => YamlDocument): unknown {
  let value: unknown;
  try {
    value = parseJson(Buffer.from(text), maxDepth, { prototypeKeys: "reject" });
  } catch (error) {
    if (error instanceof RequestError) {
      throw failure(file, explainSyntax(text, [locate(error.message, document)]));
    }
    throw error;
  }
  // Integers that may have been rounded.
  if (/[^\w"]\d{16}/.test(text) && document().problems.length > 0) {
    throw failure(file, document().problems);
  }
  return value;
}

function locate(message: string, document: () => YamlDocument): Problem {
  const [, what, line, column] = /^the body is not valid JSON: (.*) \(line (\d+), column (\d+)\)$/.exec(message) ?? [];
  if (what !== undefined) {
    return { line: Number(line), column: Number(column), message: `is not valid JSON: ${what}` };
  }
  const { path } = splitPath(message);
  return { ...document().positionOf(path), message };
}

function parseYamlText(file: string, text: string, { problems, toValue }: YamlDocument): unknown {
  if (problems.length > 0) {
    throw failure(file, explainSyntax(text, problems));
  }
  try {
    return toValue();
  } catch (error) {
    // The parser limits the expansion of aliases.
    if (error instanceof ReferenceError) {
      throw failure(file, [{ line: 1, column: 1, message: "its aliases expand to too many values" }]);
    }
    throw error;
  }
}

/** Returns the syntax errors of a text, or the conflict of a merge that causes them. */
function explainSyntax(text: string, problems: readonly Problem[]): readonly Problem[] {
  const marker = /^<{7} /m.exec(text);
  if (marker === null) {
    return problems;
  }
  const line = text.slice(0, marker.index).split("\n").length;
  return [{ line, column: 1, message: "has a merge conflict: edit the lines from <<<<<<< to >>>>>>>" }];
}

function failure(file: string, problems: readonly Problem[]): FlowFilesFailure {
  return new FlowFilesFailure(problems.map((problem) => ({ file, ...problem })));
}

/** The failure for one value of a source. */
export function failureAt(source: FlowSource, path: JsonPath, message: string): FlowFilesFailure {
  return new FlowFilesFailure([problemAt(source, path, message)]);
}

export function problemAt({ file, positionOf }: FlowSource, path: JsonPath, message: string): FileProblem {
  return { file, ...positionOf(path), message };
}

/** A problem at a position in a file. */
export type FileProblem = Problem & { readonly file: string };

/** A file that is no flows at all may have thousands of problems. */
const maxLines = 20;

/** Files of flows are invalid. The message has a line for each of the first problems. */
export class FlowFilesFailure extends CliFailure {
  readonly problems: readonly FileProblem[];

  constructor(problems: readonly FileProblem[]) {
    const more = problems.length > maxLines ? [`and ${problems.length - maxLines} more problems`] : [];
    super([...problems.slice(0, maxLines).map(formatProblem), ...more].join("\n"));
    this.name = "FlowFilesFailure";
    this.problems = problems;
  }
}

/** `tabs/heating.yaml:12:5: wires[0]: must be an array of node ids` */
export function formatProblem({ file, line, column, message }: FileProblem): string {
  return printable(`${file}:${line}:${column}: ${message}`);
}
