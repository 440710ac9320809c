import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import {
  type Credentials,
  CredentialsSchema,
  type FlowModule,
  FlowModuleSchema,
  type Node,
  NodeJsonError,
  nodeCredentialsFromJson,
  nodeFromJson,
} from "@flowgate/client";
import { findJsonValue, parseJson, RequestError, WideInteger } from "@flowgate/gateway/json";
import { formatPath, type JsonPath, splitPath } from "@flowgate/gateway/json-path";
import { texts } from "../../texts/deploy.ts";
import { SourceError, type SourceProblem } from "./source-problem.ts";

export type SourceNode = { readonly node: Node; readonly path: JsonPath };

/** Flows that someone has uploaded or pasted, and where their nodes are in the text. */
export type Source = {
  readonly text: string;
  readonly nodes: readonly SourceNode[];
  /** The revision that they were made from. */
  readonly rev: string | undefined;
  /** Outside of the nodes. */
  readonly credentials: Credentials | undefined;
  readonly modules: readonly FlowModule[];
  /** It has the form of all flows, not of a part of them that Node-RED exports. */
  readonly isWhole: boolean;
};

/** Deeper than any valid node. Bounds the recursion of the parser. */
const maxDepth = 100;

/** A text that is no flows at all may have thousands. */
const maxProblems = 20;

/**
 * Reads an array of nodes, as Node-RED exports it, an object with `flows` and perhaps `rev`, `credentials` and `modules`, as the API returns
 * and the command line exports it, or one flow with its `nodes`. Throws a SourceError with the first problems.
 */
export function parseSource(given: string): Source {
  const text = given.replace(/^\uFEFF/, "");
  if (text.trim() === "") {
    throw new SourceError([{ line: 1, column: 1, path: "", message: texts.problems.empty }]);
  }
  const reading = new Reading(text);
  const source = reading.source(reading.parse());
  reading.assertValid();
  return source;
}

/** Describes what the service has rejected, whose message begins with a path in `flows` or `credentials` of the request. */
export function locateProblem(
  text: string,
  message: string,
  pathOf: (index: number) => JsonPath | undefined,
): SourceProblem | undefined {
  const { path, rest } = splitPath(message);
  const [field, index, ...inner] = path;
  if (field === "flows" && typeof index === "number") {
    const start = pathOf(index);
    return start && problemAt(text, [...start, ...inner], rest);
  }
  return field === "credentials" || field === "modules" ? problemAt(text, path, rest) : undefined;
}

function problemAt(text: string, path: JsonPath, message: string): SourceProblem {
  const before = text.slice(0, findJsonValue(text, path));
  const line = before.split("\n").length;
  return { line, column: before.length - before.lastIndexOf("\n"), path: formatPath(path), message };
}

/** Reads one text, and collects what is wrong with it. */
class Reading {
  readonly #text: string;
  readonly #problems: SourceProblem[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  parse(): JsonValue {
    try {
      const options = { exact: true, prototypeKeys: "reject" } as const;
      return this.#exact(parseJson(new TextEncoder().encode(this.#text), maxDepth, options), []);
    } catch (error) {
      if (error instanceof RequestError) {
        throw new SourceError([explainSyntax(this.#text, error.message)]);
      }
      throw error;
    }
  }

  source(value: JsonValue): Source {
    if (Array.isArray(value)) {
      return this.#source(this.#nodes(value, []));
    }
    if (!isObject(value) || !("flows" in value || "nodes" in value || "subflows" in value)) {
      return this.#fail([], texts.problems.noFlows);
    }
    if (!("flows" in value)) {
      const { rev, ...flow } = value;
      return this.#source(this.#flow(flow, [], { type: "tab" }), { rev });
    }
    const { flows, rev, credentials, modules, ...others } = value;
    for (const key of Object.keys(others)) {
      this.#report([key], texts.problems.unknownKey);
    }
    return { ...this.#source(this.#nodes(flows, ["flows"]), { rev, credentials, modules }), isWhole: true };
  }

  assertValid(): void {
    if (this.#problems.length > 0) {
      throw new SourceError(this.#problems.toSorted((a, b) => a.line - b.line || a.column - b.column));
    }
  }

  #source(nodes: readonly SourceNode[], { rev, credentials, modules }: Partial<JsonObject> = {}): Source {
    if (rev !== undefined && typeof rev !== "string") {
      this.#report(["rev"], texts.problems.noText);
    }
    return {
      text: this.#text,
      nodes,
      rev: typeof rev === "string" && rev !== "" ? rev : undefined,
      credentials: credentials === undefined ? undefined : this.#credentials(credentials),
      modules: modules === undefined ? [] : this.#modules(modules),
      isWhole: false,
    };
  }

  #nodes(value: JsonValue | undefined, path: JsonPath, more: JsonObject = {}): SourceNode[] {
    if (!Array.isArray(value)) {
      this.#report(path, texts.problems.noArray);
      return [];
    }
    return value.flatMap((item, index) => this.#node(item, [...path, index], more));
  }

  #node(value: JsonValue, path: JsonPath, more: JsonObject): SourceNode[] {
    return this.#attempt(path, () => [{ node: nodeFromJson(isObject(value) ? { ...value, ...more } : value), path }]);
  }

  /** A tab or subflow that contains its nodes, as the API returns it; or what all flows share. */
  #flow(value: JsonValue, path: JsonPath, defaults: JsonObject): SourceNode[] {
    if (!isObject(value)) {
      this.#report(path, texts.problems.noObject);
      return [];
    }
    const { nodes = [], configs = [], subflows = [], ...own } = value;
    const isGlobal = own["id"] === "global" && path.length === 0;
    const more = isGlobal ? {} : { z: own["id"] ?? "" };
    return [
      ...(isGlobal ? [] : this.#node({ ...defaults, ...own }, path, {})),
      ...this.#nodes(nodes, [...path, "nodes"], more),
      ...this.#nodes(configs, [...path, "configs"], more),
      ...(Array.isArray(subflows) ? subflows : []).flatMap((each, index) =>
        this.#flow(each, [...path, "subflows", index], { type: "subflow" }),
      ),
    ];
  }

  #credentials(value: JsonValue): Credentials | undefined {
    if (!isObject(value)) {
      this.#report(["credentials"], texts.problems.noObject);
      return undefined;
    }
    const credentials = create(CredentialsSchema);
    for (const [id, set] of Object.entries(value)) {
      if (id === "$" && typeof set === "string") {
        credentials.encrypted = set;
      } else {
        this.#attempt(["credentials", id], () => {
          credentials.nodes[id] = nodeCredentialsFromJson(set);
          return [];
        });
      }
    }
    return credentials;
  }

  #modules(value: JsonValue): FlowModule[] {
    if (!Array.isArray(value)) {
      this.#report(["modules"], texts.problems.noModules);
      return [];
    }
    return value.flatMap((item, index) => {
      const { name, version = "", integrity, ...others } = isObject(item) ? item : {};
      const isValid = typeof name === "string" && typeof version === "string" && Object.keys(others).length === 0;
      if (!isValid || (integrity !== undefined && typeof integrity !== "string")) {
        this.#report(["modules", index], texts.problems.noModule);
        return [];
      }
      return [create(FlowModuleSchema, { name, version, ...(integrity !== undefined && { integrity }) })];
    });
  }

  #attempt<T>(path: JsonPath, read: () => T[]): T[] {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof NodeJsonError)) {
        throw error;
      }
      this.#report([...path, ...error.path], error.message);
      return [];
    }
  }

  /** Replaces the integers that a double represents exactly. All numbers of flows are doubles. */
  #exact(value: unknown, path: JsonPath): JsonValue {
    if (value instanceof WideInteger) {
      if (!value.isExact) {
        this.#report(path, texts.problems.inexact);
      }
      return value.round();
    }
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) {
        value[index] = typeof item === "object" ? this.#exact(item, [...path, index]) : item;
      }
    } else if (typeof value === "object" && value !== null) {
      const object = value as JsonObject;
      for (const key of Object.keys(object)) {
        const item = object[key];
        object[key] = typeof item === "object" ? this.#exact(item, [...path, key]) : (item as JsonValue);
      }
    }
    return value as JsonValue;
  }

  #report(path: JsonPath, message: string): void {
    if (this.#problems.length < maxProblems) {
      this.#problems.push(problemAt(this.#text, path, message));
    }
  }

  #fail(path: JsonPath, message: string): never {
    throw new SourceError([problemAt(this.#text, path, message)]);
  }
}

function explainSyntax(text: string, message: string): SourceProblem {
  const [, what, line, column] = /^the body is not valid JSON: (.*) \(line (\d+), column (\d+)\)$/.exec(message) ?? [];
  if (what === undefined) {
    // The path of a value that is valid JSON, but not accepted, such as a repeated key.
    const { path, rest } = splitPath(message);
    const before = path.length === 0 ? "" : text;
    return before === "" ? { line: 1, column: 1, path: "", message: rest } : problemAt(before, path, rest);
  }
  return { line: Number(line), column: Number(column), path: "", message: texts.problems.syntax(what) };
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
