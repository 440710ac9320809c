import { isAbsolute } from "node:path";
import { Document, type Scalar } from "yaml";
import { type FlowNode, nameOf } from "@flowgate/flows";
import { passedVariables } from "@flowgate/base/passed-variables";
import { formatYaml } from "../yaml.ts";

/** The resources that flows use and the sandbox of the runtime denies by default. */
type SandboxNeeds = {
  /** A part of flowgate.yaml that permits it, with the nodes that need it as comments; undefined if they need nothing. */
  readonly configuration: string | undefined;
  /** Permissions that may be needed, which the flows alone do not show. */
  readonly notes: readonly string[];
};

/** Finds what the nodes of Node-RED, and the code in flows, need of `runtime.allow`. Disabled nodes need nothing. */
export function findSandboxNeeds(flows: readonly FlowNode[]): SandboxNeeds {
  const needs = new Needs();
  const variables = new VariableScopes(flows);
  const disabledTabs = new Set(flows.filter((node) => node["disabled"] === true).map(({ id }) => id));
  for (const node of flows) {
    if (node["d"] === true || disabledTabs.has(node.id) || disabledTabs.has(textOf(node["z"]))) {
      continue;
    }
    findFiles(node, needs);
    if (node.type === "exec" || loads(node, "child_process")) {
      needs.add("childProcess", true, node);
    }
    if (loads(node, "worker_threads")) {
      needs.add("worker", true, node);
    }
    for (const name of readVariables(node)) {
      if (!variables.define(node, name)) {
        needs.add("env", name, node);
      }
    }
  }
  return needs;
}

type Permission = "fileSystemRead" | "fileSystemWrite" | "childProcess" | "worker" | "env";

class Needs implements SandboxNeeds {
  readonly notes: string[] = [];
  readonly #found = new Map<Permission, Map<string | true, FlowNode[]>>();

  get configuration(): string | undefined {
    return this.#found.size === 0 ? undefined : formatAllow(this.#found);
  }

  add(permission: Permission, value: string | true, node: FlowNode): void {
    const values = this.#found.get(permission) ?? new Map<string | true, FlowNode[]>();
    this.#found.set(permission, values);
    const nodes = values.get(value);
    if (nodes === undefined) {
      values.set(value, [node]);
    } else {
      nodes.push(node);
    }
  }

  note(node: FlowNode, text: string): void {
    this.notes.push(`${describe(node)}: ${text}`);
  }
}

function formatAllow(found: ReadonlyMap<Permission, ReadonlyMap<string | true, readonly FlowNode[]>>): string {
  const document = new Document({ runtime: { allow: {} } });
  for (const [permission, values] of found) {
    const scalars = Array.from(values, ([value, nodes]) => {
      const scalar: Scalar = document.createNode(value);
      scalar.comment = ` ${describeAll(nodes)}`;
      return scalar;
    });
    document.setIn(["runtime", "allow", permission], values.has(true) ? scalars[0] : document.createNode(scalars));
  }
  return formatYaml(document);
}

function describeAll(nodes: readonly FlowNode[]): string {
  const shown = nodes.slice(0, 3).map(describe).join(", ");
  return nodes.length > 3 ? `${shown} and ${nodes.length - 3} more` : shown;
}

/** JSON, since a name can contain the end of a line, which would end the comment. */
function describe(node: FlowNode): string {
  return `${JSON.stringify(node.type)} ${JSON.stringify(nameOf(node) ?? node.id)}`;
}

/** The properties with files of Node-RED's own nodes. */
function findFiles(node: FlowNode, needs: Needs): void {
  switch (node.type) {
    case "file":
      return findNamedFile(node, "fileSystemWrite", needs);
    case "file in":
      return findNamedFile(node, "fileSystemRead", needs);
    case "watch":
      return addFiles(node, "fileSystemRead", textOf(node["files"]).split(","), needs);
    case "tls-config":
      return addFiles(
        node,
        "fileSystemRead",
        ["cert", "key", "ca", "p12"].map((key) => textOf(node[key])),
        needs,
      );
    default:
  }
}

function findNamedFile(node: FlowNode, permission: "fileSystemRead" | "fileSystemWrite", needs: Needs): void {
  const file = textOf(node["filename"]);
  const type = textOf(node["filenameType"]) || (file === "" ? "msg" : "str");
  if (type === "str") {
    return addFiles(node, permission, [file], needs);
  }
  needs.note(node, `its file name is known only when it runs: permit its folder with runtime.allow.${permission}`);
}

function addFiles(node: FlowNode, permission: Permission, files: readonly string[], needs: Needs): void {
  for (const file of files.map((each) => each.trim()).filter((each) => each !== "" && !/^\$\{\S+\}$/.test(each))) {
    if (isAbsolute(file)) {
      needs.add(permission, file, node);
    } else {
      needs.note(node, `the file ${JSON.stringify(file)} is looked for in runtime.dir: copy it there`);
    }
  }
}

function loads(node: FlowNode, module: string): boolean {
  const libs = node.type === "function" && Array.isArray(node["libs"]) ? node["libs"] : [];
  return libs.some((lib) => [module, `node:${module}`].includes(textOf((Object(lib) as { module?: unknown }).module)));
}

/** How code and properties read variables: functions, JSONata, templates, and text that consists of one only. */
const references = [
  /\benv\.get\(\s*["'`]([^"'`]+)["'`]\s*\)/g,
  /\$env\(\s*["']([^"']+)["']\s*\)/g,
  /\{\{\{?\s*env\.([^\s{}]+)\s*\}/g,
  /^\$\{([^\s}]+)\}$/g,
];

function readVariables(node: FlowNode): Set<string> {
  const names = new Set<string>();
  // A list instead of a recursion: the nesting of a file is not limited.
  const values: unknown[] = [node];
  for (let next = 0; next < values.length; next++) {
    const value = values[next];
    if (typeof value === "string") {
      references.flatMap((each) => [...value.matchAll(each)]).forEach(([, name = ""]) => names.add(name));
    } else if (typeof value === "object" && value !== null) {
      typedVariables(value as Record<string, unknown>).forEach((name) => names.add(name));
      values.push(...Object.values(value));
    }
  }
  return new Set(Array.from(names, (name) => name.replace(/^(?:\$parent\.)+/, "")).filter((name) => !isBuiltIn(name)));
}

/**
 * The values whose type is `env`: `payload` beside `payloadType`, `v` beside `vt`, `to` beside `tot`, `value` beside `type`. Such a
 * value is a name, or text that contains `${NAME}`.
 */
function typedVariables(object: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(object)
    .filter(([, type]) => type === "env")
    .map(([key]) => object[key === "type" ? "value" : key.replace(/(?:Type|t)$/, "")])
    .filter((text) => typeof text === "string" && text !== "env")
    .flatMap((text) => {
      const inner = Array.from((text as string).matchAll(/\$\{([^}]+)\}/g), ([, name = ""]) => name);
      return inner.length > 0 ? inner : [text as string];
    });
}

/** True if flows can read it anyway: the runtime's own variables, and those that are always passed to it. */
function isBuiltIn(name: string): boolean {
  return name.startsWith("NR_") || name === "HOME" || passedVariables.includes(name);
}

/** The variables that flows define themselves, for the nodes in a tab, a group or a subflow, or for all. */
class VariableScopes {
  readonly #nodes: ReadonlyMap<string, FlowNode>;
  readonly #global: ReadonlySet<string>;
  /** Instances of subflows, and what contains them, define variables for the nodes of the subflow. */
  readonly #outside: ReadonlySet<string>;

  constructor(flows: readonly FlowNode[]) {
    this.#nodes = new Map(flows.map((node) => [node.id, node]));
    this.#global = new Set(flows.filter(({ type }) => type === "global-config").flatMap(namesIn));
    this.#outside = new Set(flows.flatMap(namesIn));
  }

  define(node: FlowNode, name: string): boolean {
    if (this.#global.has(name) || namesIn(node).includes(name)) {
      return true;
    }
    const container = this.#nodes.get(textOf(node["z"]));
    if (container?.type === "subflow") {
      return this.#outside.has(name);
    }
    return [container, ...this.#groupsOf(node)].some((each) => each !== undefined && namesIn(each).includes(name));
  }

  #groupsOf(node: FlowNode): Set<FlowNode> {
    const groups = new Set<FlowNode>();
    let group = this.#nodes.get(textOf(node["g"]));
    while (group !== undefined && !groups.has(group)) {
      groups.add(group);
      group = this.#nodes.get(textOf(group["g"]));
    }
    return groups;
  }
}

function namesIn(node: FlowNode): string[] {
  const env = Array.isArray(node["env"]) ? node["env"] : [];
  return env.map((each) => textOf((Object(each) as { name?: unknown }).name));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
