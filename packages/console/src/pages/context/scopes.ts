import type { ContextKeys, Node } from "@flowgate/client";
import { nodePath, tabPath } from "../../components/node-path.ts";
import { findMissingTabs } from "../../flow-view/flow-nodes.ts";

export type ScopeKeys = {
  /** As in requests, such as `flow/ID`. */
  readonly scope: string;
  readonly store: string;
  readonly kind: "global" | "flow" | "node";
  /** The label in the flows, or the id if the flows do not contain it, as for node instances in subflows. */
  readonly label: string;
  /** The place in the flows, such as `/flows/TAB?node=ID`. */
  readonly path: string | undefined;
  readonly keys: readonly string[];
  readonly isTruncated: boolean;
};

type KnownNode = Pick<Node, "id" | "type" | "label" | "properties">;

/** Scopes with their names in the flows: the global one first, then tabs, then nodes. */
export function describeScopes(
  scopes: readonly Pick<ContextKeys, "scope" | "store" | "keys" | "truncated">[],
  nodes: readonly KnownNode[],
): readonly ScopeKeys[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const tabs = readTabs(nodes);
  return scopes
    .map(({ scope, store, keys, truncated }) => {
      const { kind, id } = parseScope(scope);
      const node = byId.get(id);
      const label = (node && nameOf(node)) ?? id;
      const path = node === undefined ? (tabs.has(id) ? tabPath(id) : undefined) : pathOf(node);
      return { scope, store, kind, label, path, keys, isTruncated: truncated };
    })
    .toSorted(
      (one, other) => kinds.indexOf(one.kind) - kinds.indexOf(other.kind) || one.label.localeCompare(other.label),
    );
}

export function readTabs(nodes: readonly KnownNode[]): ReadonlyMap<string, string> {
  return new Map([
    ...nodes.filter(({ type }) => type === "tab").map(({ id, label }) => [id, label || id] as const),
    ...Array.from(findMissingTabs(nodes), (id) => [id, id] as const),
  ]);
}

const kinds = ["global", "flow", "node"] as const;

function parseScope(scope: string): Pick<ScopeKeys, "kind"> & { readonly id: string } {
  const at = scope.indexOf("/");
  const kind = kinds.find((each) => each === scope.slice(0, at)) ?? "global";
  return { kind, id: scope.slice(at + 1).replaceAll(/%2F/gi, "/") };
}

function nameOf({ id, type, label, properties }: KnownNode): string {
  const name = properties?.["name"];
  return label || (typeof name === "string" && name) || (type === "tab" ? id : `${type} ${id}`);
}

function pathOf({ id, type, properties }: KnownNode): string {
  const container = properties?.["z"];
  if (type === "tab" || typeof container !== "string" || container === "") {
    return tabPath(id);
  }
  return nodePath({ flowId: container, nodeId: id, subflowPath: [] });
}

export function searchScopes(scopes: readonly ScopeKeys[], text: string): readonly ScopeKeys[] {
  const wanted = text.toLowerCase();
  const has = (each: string): boolean => each.toLowerCase().includes(wanted);
  return scopes.flatMap((scope) => {
    const keys = has(scope.label) || has(scope.scope) ? scope.keys : scope.keys.filter(has);
    return keys.length === 0 ? [] : [{ ...scope, keys }];
  });
}

/**
 * The value of a key in requests, such as `global/counter`. The key is there a property expression, in which quotation marks can't be
 * escaped. Undefined: it can't be expressed.
 */
export function placeOf(scope: string, key: string): string | undefined {
  if (/^[A-Za-z_$][\w$]*$/.test(key)) {
    return `${scope}/${key}`;
  }
  const quote = ['"', "'"].find((each) => !key.includes(each));
  return quote === undefined ? undefined : `${scope}/${quote}${key}${quote}`;
}
