import { create, type JsonValue } from "@bufbuild/protobuf";
import { type Credentials, CredentialsSchema, type Node, NodeSchema } from "@flowgate/client";
import type { JsonPath } from "@flowgate/gateway/json-path";
import { texts } from "../../texts/deploy.ts";
import { SourceError } from "./source-problem.ts";
import type { Source, SourceNode } from "./source.ts";

/**
 * What given flows do to the active ones: they are `all` that is active then; their tabs and other nodes `replace` those with the same ids and
 * are added otherwise; or their tabs are added as `copies`.
 */
export type Target = "all" | "replace" | "copies";

/** The flows of a deployment. */
export type Combined = {
  readonly flows: readonly Node[];
  readonly credentials: Credentials | undefined;
  /** Where each of the flows is in the text; undefined for those that were active. */
  readonly paths: readonly (JsonPath | undefined)[];
};

/** `active` are the active flows, which are not used for the target `all`. Throws a SourceError if that is not possible. */
export function combine(source: Source, active: readonly Node[], target: Target): Combined {
  if (target === "all") {
    return toCombined(source.nodes, source.credentials);
  }
  if (source.credentials?.encrypted !== undefined) {
    const problem = { line: 1, column: 1, path: "credentials.$", message: texts.problems.encrypted };
    throw new SourceError([problem]);
  }
  return target === "replace" ? replace(source, active) : addCopies(source, active);
}

type Part = { readonly node: Node; readonly path: JsonPath | undefined };

function toCombined(parts: readonly Part[], credentials: Credentials | undefined): Combined {
  return { flows: parts.map(({ node }) => node), credentials, paths: parts.map(({ path }) => path) };
}

/** Tabs and subflows are replaced with all of their nodes. */
function replace({ nodes, credentials }: Source, active: readonly Node[]): Combined {
  const given = new Map(nodes.map((each) => [each.node.id, each]));
  const containers = new Set(nodes.filter(({ node }) => isContainer(node)).map(({ node }) => node.id));
  const activeIds = new Set(active.map(({ id }) => id));
  const kept = active.flatMap((node): Part[] => {
    const replacement = given.get(node.id);
    if (replacement !== undefined) {
      return [replacement];
    }
    return containers.has(containerOf(node)) ? [] : [{ node, path: undefined }];
  });
  return toCombined([...kept, ...nodes.filter(({ node }) => !activeIds.has(node.id))], credentials);
}

/**
 * Adds tabs, with new ids where the ids are taken. Configuration nodes and subflows that exist already stay as they are, and the copies use them.
 * Nodes whose tab does not exist get one.
 */
function addCopies({ nodes, credentials }: Source, active: readonly Node[]): Combined {
  const taken = new Map(active.map((node) => [node.id, node]));
  const keptContainers = new Set(
    nodes.filter(({ node }) => node.type === "subflow" && taken.has(node.id)).map(({ node }) => node.id),
  );
  const isKept = ({ node }: SourceNode): boolean =>
    keptContainers.has(node.id) || keptContainers.has(containerOf(node)) || (taken.has(node.id) && isShared(node));
  const added = nodes.filter((each) => !isKept(each));
  const ids = new Map(added.flatMap(({ node: { id } }) => (taken.has(id) ? [[id, createId()] as const] : [])));
  const parts = added.map(({ node, path }) => ({ node: rename(node, ids), path }));
  return toCombined(
    [...active.map((node) => ({ node, path: undefined })), ...withTab(parts, active)],
    credentials &&
      create(CredentialsSchema, {
        nodes: Object.fromEntries(
          added.flatMap(({ node: { id } }) => {
            const set = credentials.nodes[id];
            return set === undefined ? [] : [[ids.get(id) ?? id, set]];
          }),
        ),
      }),
  );
}

function withTab(parts: readonly Part[], active: readonly Node[]): Part[] {
  const containers = new Set([...active, ...parts.map(({ node }) => node)].filter(isContainer).map(({ id }) => id));
  const isLost = ({ node }: Part): boolean =>
    !isContainer(node) && !isShared(node) && !containers.has(containerOf(node));
  if (!parts.some(isLost)) {
    return [...parts];
  }
  const tab = create(NodeSchema, { id: createId(), type: "tab", label: texts.newTab, properties: {} });
  const placed = parts.map((part) =>
    isLost(part) ? { ...part, node: { ...part.node, properties: { ...part.node.properties, z: tab.id } } } : part,
  );
  return [{ node: tab, path: undefined }, ...placed];
}

function isContainer({ type }: Node): boolean {
  return type === "tab" || type === "subflow";
}

function containerOf({ properties }: Node): string {
  const z = properties?.["z"];
  return typeof z === "string" ? z : "";
}

/** Whether it is a configuration node or a subflow: what several tabs may use. */
function isShared({ type, properties = {} }: Node): boolean {
  return type === "subflow" || (type !== "tab" && type !== "group" && !("x" in properties && "y" in properties));
}

/** Where nodes name others that are not configuration nodes. */
const references = ["z", "g", "wires", "links", "nodes", "scope"];

function rename(node: Node, ids: ReadonlyMap<string, string>): Node {
  const properties = { ...node.properties };
  for (const key of references) {
    const value = properties[key];
    if (value !== undefined) {
      properties[key] = renameAll(value, ids);
    }
  }
  return { ...node, id: ids.get(node.id) ?? node.id, properties };
}

function renameAll(value: JsonValue, ids: ReadonlyMap<string, string>): JsonValue {
  if (Array.isArray(value)) {
    return value.map((item) => renameAll(item, ids));
  }
  return typeof value === "string" ? (ids.get(value) ?? value) : value;
}

/** As Node-RED's editor does. */
function createId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
