import type { DescEnum, DescMessage } from "@bufbuild/protobuf";
import type { CompleteJsonOptions } from "../json/json-options.ts";
import { describe } from "./comments.ts";
import type { Schema } from "./document.ts";

/** The use of a type that a schema describes: the JSON of requests and responses differs. */
export type SchemaUse = {
  readonly direction: "request" | "response";
  readonly json: CompleteJsonOptions;
  /** True for the JSON of an RPC protocol, to which the field options for HTTP do not apply. */
  readonly isRpc: boolean;
  /** Whether unknown keys of a request are ignored instead of rejected. */
  readonly open: boolean;
  /**
   * The messages of a change, which may have a part of their fields: google.api.field_behavior requires none of them.
   * "nested": the messages in this one.
   */
  readonly partial: "none" | "nested" | "all";
  /** The top-level fields that are bound to the path, and so not part of the body. Does not apply to nested messages. */
  readonly omit: readonly string[];
};

/** The uses of the messages of a method as they are without its further options. */
export type SchemaUses = Readonly<Record<SchemaUse["direction"], SchemaUse>>;

export function createUses(json: CompleteJsonOptions, isRpc: boolean): SchemaUses {
  const request: SchemaUse = { direction: "request", json, isRpc, open: false, partial: "none", omit: [] };
  return { request, response: { ...request, direction: "response" } };
}

export function nestedUse(use: SchemaUse): SchemaUse {
  return { ...use, omit: [], partial: use.partial === "none" ? "none" : "all" };
}

/** The suffix of the component's name if its schema differs from the response's. */
function suffixOf({ direction, isRpc, omit, open, partial }: SchemaUse): string {
  const protocol = isRpc ? "Rpc" : "";
  if (direction === "response") {
    return protocol;
  }
  return `${protocol}${omit.length > 0 ? "Body" : partial === "all" ? "Patch" : "Input"}${open ? "Open" : ""}`;
}

export type Components = {
  /** Returns a reference to the schema of a type. It is a placeholder that `finish` resolves to the component's name. */
  ref(desc: DescMessage | DescEnum, use: SchemaUse): Schema;
  /** Adds a schema under a fixed name, and returns a reference to it. */
  readonly refNamed: (name: string, schema: Schema) => Schema;
  /** Describes and names all referenced types; `resolve` returns a copy of a value with its references resolved. */
  readonly finish: () => { readonly schemas: Record<string, Schema>; readonly resolve: <T>(value: T) => T };
};

type Entry = {
  readonly desc: DescMessage | DescEnum;
  readonly use: SchemaUse;
  schema: Schema;
  /** Entries of a type with equal schemas are in one group, and share a component. */
  group: string;
};

/** `isShared`: whether requests and responses share the schema of a type, which then requires what both do. */
export function createComponents(
  describe: (desc: DescMessage | DescEnum, use: SchemaUse) => Schema,
  isShared: boolean,
): Components {
  const entries = new Map<string, Entry>();
  const named = new Map<string, Schema>();
  const pending: Entry[] = [];

  return {
    ref(desc, use) {
      const key = `${desc.typeName} ${JSON.stringify(use)}`;
      let entry = entries.get(key);
      if (entry === undefined) {
        entry = { desc, use, schema: {}, group: desc.typeName };
        entries.set(key, entry);
        pending.push(entry);
      }
      return { $ref: key };
    },
    refNamed(name, schema) {
      named.set(name, schema);
      return { $ref: `#/components/schemas/${name}` };
    },
    finish() {
      // Describing a type adds the types that it refers to once each, so recursive types terminate.
      for (let entry = pending.shift(); entry !== undefined; entry = pending.shift()) {
        entry.schema = describe(entry.desc, entry.use);
      }
      if (isShared) {
        shareRequired([...entries.values()].filter(({ use }) => use.omit.length === 0));
      }
      const all = [...entries.values()].toSorted((a, b) => (order(a) < order(b) ? -1 : 1));
      mergeEqual(all, (key) => entries.get(key)?.group ?? key);
      const names = nameGroups(all, new Set(named.keys()));
      const nameOf = ({ group }: Entry): string => names.get(group) ?? group;
      const resolve = <T>(value: T): T =>
        mapRefs(value, (key) => {
          const entry = entries.get(key);
          return entry === undefined ? key : `#/components/schemas/${nameOf(entry)}`;
        });
      const schemas = new Map(named);
      for (const entry of all) {
        schemas.set(nameOf(entry), resolve(entry.schema));
      }
      return { schemas: Object.fromEntries([...schemas].toSorted(([a], [b]) => (a < b ? -1 : 1))), resolve };
    },
  };
}

/**
 * Reduces the required properties of each type to those required in all uses. Descriptions name the others that
 * requests need.
 */
function shareRequired(entries: readonly Entry[]): void {
  const requiredOf = ({ schema }: Entry): readonly string[] => (schema["required"] as string[] | undefined) ?? [];
  for (const members of Map.groupBy(entries, ({ desc }) => desc.typeName).values()) {
    const lists = members.map(requiredOf);
    const common = (lists[0] ?? []).filter((name) => lists.every((list) => list.includes(name)));
    const requests = members.filter(({ use }) => use.direction === "request");
    const inRequests = requests.flatMap(requiredOf).filter((name) => !common.includes(name));
    const note = requests.some(({ use }) => use.partial === "all")
      ? "Required in requests, except for a change of some fields."
      : "Required in requests.";
    for (const entry of members) {
      const { required: _, ...others } = entry.schema;
      const required = common.length === 0 ? {} : { required: common };
      entry.schema = { ...others, ...required, ...withNotes(others["properties"], inRequests, note) };
    }
  }
}

function withNotes(properties: unknown, names: readonly string[], note: string): Schema {
  if (names.length === 0) {
    return {};
  }
  const entries = Object.entries(properties as Record<string, Schema>).map(([name, schema]) => {
    const text = names.includes(name) ? describe(schema["description"] as string | undefined, note) : {};
    return [name, { ...schema, ...text }] as const;
  });
  return { properties: Object.fromEntries(entries) };
}

/** Sorts responses first, since they get the name without a suffix. */
const order = ({ desc, use }: Entry): string =>
  `${desc.typeName} ${use.direction === "response" ? 0 : 1} ${suffixOf(use)} ${use.omit.join(" ")} ${JSON.stringify(use)}`;

/**
 * Partition refinement: starts with one group for each type, and splits groups whose schemas differ until none do. This
 * also finds equal schemas of recursive types.
 */
function mergeEqual(entries: readonly Entry[], groupOf: (ref: string) => string): void {
  let count = 0;
  for (let changed = true; changed;) {
    changed = false;
    const texts = new Map(entries.map((entry) => [entry, JSON.stringify(mapRefs(entry.schema, groupOf))]));
    for (const members of Map.groupBy(entries, ({ group }) => group).values()) {
      const [, ...others] = Map.groupBy(members, (entry) => texts.get(entry)).values();
      for (const equal of others) {
        changed = true;
        count++;
        for (const entry of equal) {
          entry.group = `${entry.desc.typeName}/${count}`;
        }
      }
    }
  }
}

function mapRefs<T>(value: T, map: (ref: string) => string): T {
  if (Array.isArray(value)) {
    return value.map((each: unknown) => mapRefs(each, map)) as T;
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, each]: [string, unknown]) => [
      key,
      key === "$ref" && typeof each === "string" ? map(each) : mapRefs(each, map),
    ]),
  ) as T;
}

/** Assigns short type names; full names if two types have the same short name, and numbers if a name is taken. */
function nameGroups(entries: readonly Entry[], reserved: ReadonlySet<string>): Map<string, string> {
  const usedNames = new Set(reserved);
  const shortNames = new Map<string, Set<string>>();
  for (const { desc } of entries) {
    const short = shortName(desc);
    shortNames.set(short, (shortNames.get(short) ?? new Set()).add(desc.typeName));
  }
  const names = new Map<string, string>();
  for (const { desc, use, group } of entries) {
    if (names.has(group)) {
      continue;
    }
    const short = shortName(desc);
    const base = (shortNames.get(short)?.size ?? 0) > 1 || reserved.has(short) ? desc.typeName : short;
    const alone = !entries.some((other) => other.desc.typeName === desc.typeName && other.group !== group);
    const preferred = alone ? base : base + suffixOf(use);
    let name = preferred;
    for (let number = 2; usedNames.has(name); number++) {
      name = `${preferred}${number}`;
    }
    usedNames.add(name);
    names.set(group, name);
  }
  return names;
}

function shortName({ typeName, file }: DescMessage | DescEnum): string {
  return file.proto.package === "" ? typeName : typeName.slice(file.proto.package.length + 1);
}
