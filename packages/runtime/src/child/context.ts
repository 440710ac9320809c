import { types } from "node:util";
import {
  type ContextKeys,
  type ContextList,
  type ContextScope,
  type ReadContextValue,
  type DeleteContext,
  deleteContext,
  type GetContext,
  getContext,
  listContext,
  maxValueBytes,
  type NoContext,
  type SetContext,
  setContext,
} from "../context-procedures.ts";
import { type FlowNode, findMissingTabs } from "@flowgate/flows";
import type { CallHandler } from "./call-server.ts";
import type { ContextStores } from "./context-stores.ts";
import { describeType, ValueEncoder } from "./encode-value.ts";
import type { ScopeContext, NodeRed } from "./node-red.ts";

// Node-RED has no route for writing. What is read may have been written by hostile flows: nothing of it is executed.

type Parts = Pick<NodeRed, "util" | "getNode" | "eachNode" | "getContext" | "listContextStores"> & {
  readonly stores: Pick<ContextStores, "scopes">;
};

export function contextHandlers(parts: Parts): [string, CallHandler][] {
  return [
    [listContext.name, (argument: { readonly store?: string }) => list(parts, argument.store)],
    [getContext.name, (argument: GetContext) => get(parts, argument)],
    [setContext.name, (argument: SetContext) => set(parts, argument)],
    [deleteContext.name, (argument: DeleteContext) => remove(parts, argument)],
  ];
}

/** Each scope has an entry for each of its stores. */
const maxScopes = 1_000;
const maxKeysOfScope = 1_000;
const maxKeyChars = 300;
const maxListChars = 300_000;

async function list(parts: Parts, store: string | undefined): Promise<ContextList | NoContext> {
  const all = storeNames(parts);
  const found = store === undefined ? all : [findStore(parts, store)];
  const scopes: ContextKeys[] = [];
  let chars = 0;
  for (const name of found) {
    if (name === undefined) {
      return { missing: "store", stores: all };
    }
    for (const scope of await usedScopes(parts, name)) {
      const context = findContext(parts, scope);
      const keys = context === undefined ? [] : await keysOf(context, name);
      if (keys.length === 0) {
        continue;
      }
      const listed = keys.slice(0, maxKeysOfScope).filter((key) => {
        chars += key.length;
        return key.length <= maxKeyChars && chars <= maxListChars;
      });
      if (scopes.length === maxScopes) {
        return { stores: all, scopes, isTruncated: true };
      }
      scopes.push({ scope, store: name, keys: listed, isTruncated: listed.length < keys.length });
    }
  }
  return { stores: all, scopes, isTruncated: false };
}

/** The scopes that have values in a store. */
async function usedScopes(parts: Parts, store: string): Promise<ContextScope[]> {
  const tabs = runningTabs(parts);
  const names = await parts.stores.scopes(store);
  const scopes = names.filter((name) => name !== "global").map((name) => toScope(parts, tabs, name));
  // It may have values of the configuration only.
  return [{ kind: "global" }, ...scopes.filter((scope) => scope !== undefined)];
}

/** The values of a node are stored under its id, a colon, and the id of its flow. */
function toScope(parts: Parts, tabs: ReadonlySet<string>, name: string): ContextScope | undefined {
  if (tabs.has(name) || isInstance(parts.getNode(name))) {
    return { kind: "flow", id: name };
  }
  for (let end = name.indexOf(":"); end !== -1; end = name.indexOf(":", end + 1)) {
    const id = name.slice(0, end);
    const node = parts.getNode(id);
    if (node?.z === name.slice(end + 1)) {
      return { kind: "node", id };
    }
  }
  return undefined;
}

async function get(parts: Parts, { scope, key, store }: GetContext): Promise<ReadContextValue | NoContext> {
  const found = find(parts, scope, store);
  if (!("context" in found)) {
    return found;
  }
  const { context, storeName } = found;
  const encoder = new ValueEncoder(maxValueBytes);
  if (key === undefined) {
    const values = Object.create(null) as Record<string, unknown>;
    let isTruncated = false;
    for (const name of await keysOf(context, storeName)) {
      if (encoder.isFull) {
        isTruncated = true;
        break;
      }
      const expression = quote(name);
      if (expression === undefined || name === "__proto__") {
        isTruncated = true;
        continue;
      }
      const { value } = await read(context, expression, storeName);
      const encoded = encoder.encode(value);
      encoder.encode(name);
      values[name.toWellFormed()] = encoded.value;
      isTruncated ||= encoded.isTruncated;
    }
    return { values, isTruncated };
  }
  const path = parsePath(parts, key);
  if ("refused" in path) {
    return path;
  }
  const property = await findProperty(context, path.names, storeName);
  if (property === undefined || ("value" in property && property.value === undefined)) {
    return { missing: "key" };
  }
  if (!("value" in property)) {
    return { value: "[getter]", format: "getter", isTruncated: true };
  }
  return { ...encoder.encode(property.value), format: describeType(property.value) };
}

async function set(parts: Parts, { scope, key, value, store }: SetContext): Promise<"done" | NoContext> {
  return change(parts, { scope, key, store }, async (found, names) => {
    let isCreated = false;
    for (const [at, name] of names.entries()) {
      if (at === 0) {
        continue;
      }
      const parent: PropertyDescriptor | undefined = isCreated
        ? undefined
        : await findProperty(found.context, names.slice(0, at), found.storeName);
      // It is created, with what it contains: an array if a number follows.
      isCreated = parent === undefined || ("value" in parent && parent.value === undefined);
      const container: unknown = isCreated ? (typeof name === "number" ? [] : {}) : parent?.value;
      if (!isPlain(container)) {
        return { refused: `${JSON.stringify(names.slice(0, at).join("."))} is no object or array` };
      }
      const problem = Array.isArray(container) ? describeIndexProblem(container, name) : undefined;
      if (problem !== undefined) {
        return { refused: problem };
      }
    }
    await write(found.context, key, value, found.storeName);
    return "done";
  });
}

async function remove(parts: Parts, { scope, key, store }: DeleteContext): Promise<"done" | NoContext> {
  return change(parts, { scope, key, store }, async (found, names) => {
    if ((await findProperty(found.context, names, found.storeName)) === undefined) {
      return { missing: "key" };
    }
    await write(found.context, key, undefined, found.storeName);
    return "done";
  });
}

async function change(
  parts: Parts,
  { scope, key, store }: DeleteContext,
  work: (found: Found, names: readonly Name[]) => Promise<"done" | NoContext>,
): Promise<"done" | NoContext> {
  const found = find(parts, scope, store);
  if (!("context" in found)) {
    return found;
  }
  const path = parsePath(parts, key);
  return "refused" in path ? path : work(found, path.names);
}

type Found = { readonly context: ScopeContext; readonly storeName: string };

function find(parts: Parts, scope: ContextScope, store: string | undefined): Found | NoContext {
  const storeName = findStore(parts, store);
  if (storeName === undefined) {
    return { missing: "store", stores: storeNames(parts) };
  }
  const context = findContext(parts, scope);
  return context === undefined ? { missing: "scope" } : { context, storeName };
}

function storeNames({ listContextStores }: Parts): string[] {
  const { default: name, stores } = listContextStores();
  return [name, ...stores.filter((each) => each !== name)];
}

/** The default store also has the name `memory`, whatever it is called. */
function findStore(parts: Parts, name: string | undefined): string | undefined {
  const names = storeNames(parts);
  return names.find((each) => each === name) ?? (name === undefined || name === "memory" ? names[0] : undefined);
}

/** Does not create the context of a scope that does not exist, which Node-RED would keep. */
function findContext(parts: Parts, scope: ContextScope): ScopeContext | undefined {
  if (scope.kind === "global") {
    return parts.getContext("global");
  }
  const { kind, id } = scope;
  if (kind === "flow") {
    return isInstance(parts.getNode(id)) || runningTabs(parts).has(id) ? parts.getContext(id) : undefined;
  }
  const node = parts.getNode(id);
  // A node in an instance of a subflow has the values of that instance.
  return isInstance(node) ? parts.getContext(id) : node?.context();
}

/** With those that exist only as the `z` of nodes. */
function runningTabs({ eachNode }: Parts): ReadonlySet<string> {
  const nodes: FlowNode[] = [];
  eachNode((node) => nodes.push(node));
  const enabled = nodes.filter(({ type, disabled }) => type === "tab" && disabled !== true).map(({ id }) => id);
  return findMissingTabs(nodes).union(new Set(enabled));
}

function isInstance(node: ReturnType<Parts["getNode"]>): boolean {
  return node?.type.startsWith("subflow:") === true;
}

type Name = string | number;

/** By how many elements a request may extend an array: stores in files write each of them. */
const maxAddedElements = 10_000;

/** Why an element of an array can't be set; undefined: it can. */
function describeIndexProblem({ length }: readonly unknown[], name: Name): string | undefined {
  if (name === "length") {
    return "the length of an array can't be set";
  }
  // Text can be an index too.
  return Number(name) >= length + maxAddedElements
    ? `the index ${name} is too large: the array has ${length} elements, and at most ${maxAddedElements} can be added`
    : undefined;
}

/** Parses a property expression. */
function parsePath({ util }: Parts, key: string): { readonly names: readonly Name[] } | { readonly refused: string } {
  if (/^(?:\$parent|#:\()/.test(key) || key.includes("[msg")) {
    return { refused: "the key must be a name, or parts such as a.b[0]; name scope and store apart from it" };
  }
  let names: readonly Name[];
  try {
    names = util.util.normalisePropertyExpression(key);
  } catch (error) {
    return { refused: (error as Error).message };
  }
  return names.includes("__proto__") ? { refused: "the key must not contain __proto__" } : { names };
}

/** The property expression of one name; undefined: there is none. */
function quote(name: Name): string | undefined {
  const text = String(name);
  if (/^[a-z_]\w*$/i.test(text)) {
    return text;
  }
  const mark = ['"', "'"].find((each) => !text.includes(each));
  return mark === undefined || text === "" ? undefined : `${mark}${text}${mark}`;
}

/** Finds a value by own properties, and calls no getters. */
async function findProperty(
  context: ScopeContext,
  [root = "", ...names]: readonly Name[],
  storeName: string,
): Promise<PropertyDescriptor | undefined> {
  const expression = quote(root);
  // Stores also find what their objects inherit.
  const isInherited = root in Object.prototype && !(await keysOf(context, storeName)).includes(String(root));
  const found = expression === undefined || isInherited ? undefined : await read(context, expression, storeName);
  let property: PropertyDescriptor | undefined = found?.value === undefined ? undefined : found;
  for (const name of names) {
    if (property === undefined || !isPlain(property.value)) {
      return undefined;
    }
    property = Object.getOwnPropertyDescriptor(property.value, name);
  }
  return property;
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !types.isProxy(value);
}

/** In an object: a promise would look for a method `then` of the value. */
function read(context: ScopeContext, expression: string, storeName: string): Promise<{ readonly value: unknown }> {
  return new Promise((resolve, reject) => {
    context.get(expression, storeName, (error, value) => (error ? reject(error) : resolve({ value })));
  });
}

function write(context: ScopeContext, key: string, value: unknown, storeName: string): Promise<void> {
  return new Promise((resolve, reject) => {
    context.set(key, value, storeName, (error) => (error ? reject(error) : resolve()));
  });
}

function keysOf(context: ScopeContext, storeName: string): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    context.keys(storeName, (error, keys) => (error ? reject(error) : resolve(keys ?? [])));
  });
}
