import type { DescEnum, DescMessage } from "@bufbuild/protobuf";
import type { Schema } from "./document.ts";

/** Which JSON a message or an enum stands for: the same one is read otherwise than it is written. */
export type Form = {
  /** Ends the component's name where the same type has other forms beside the response's. */
  readonly suffix: string;
  readonly direction: "request" | "response";
  /** Of a request: keys that the message does not have are skipped, not refused. */
  readonly open: boolean;
  /** The names of top-level fields that the request's path has. Holds for the message itself, not for what is in it. */
  readonly omit: readonly string[];
  /** All values are text: of a form. */
  readonly text: boolean;
};

export const responseForm: Form = { suffix: "", direction: "response", open: false, omit: [], text: false };

export function requestForm(open: boolean, omit: readonly string[] = []): Form {
  const suffix = `${omit.length > 0 ? "Body" : "Input"}${open ? "Open" : ""}`;
  return { suffix, direction: "request", open, omit, text: false };
}

export type Components = {
  /** A reference to the schema of a type. What it refers to is named when all have been asked for: see `finish`. */
  ref(desc: DescMessage | DescEnum, form: Form): Schema;
  /** A reference to a schema that is no message's. */
  readonly refNamed: (name: string, schema: Schema) => Schema;
  /** Names everything that was referred to; `resolve` gives a copy of what holds references, with these names. */
  readonly finish: () => { readonly schemas: Record<string, Schema>; readonly resolve: <T>(value: T) => T };
};

type Entry = {
  readonly desc: DescMessage | DescEnum;
  readonly form: Form;
  schema: Schema;
  /** Entries of one type whose schemas say the same have one component. */
  group: string;
};

export function createComponents(describe: (desc: DescMessage | DescEnum, form: Form) => Schema): Components {
  const entries = new Map<string, Entry>();
  const named = new Map<string, Schema>();
  const pending: Entry[] = [];

  return {
    ref(desc, form) {
      const key = `${desc.typeName} ${form.suffix} ${form.omit.join(" ")} ${form.text}`;
      let entry = entries.get(key);
      if (entry === undefined) {
        entry = { desc, form, schema: {}, group: desc.typeName };
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
      // Describing one asks for those that it holds: later ones than itself, so a recursive type ends.
      for (let entry = pending.shift(); entry !== undefined; entry = pending.shift()) {
        entry.schema = describe(entry.desc, entry.form);
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

/** The response's form first: it has the plain name. */
const order = ({ desc, form }: Entry): string =>
  `${desc.typeName} ${form.direction === "response" ? 0 : 1} ${form.suffix} ${form.omit.join(" ")}`;

/**
 * Begins with one group a type, and parts those whose schemas differ until none do: so two forms of a
 * recursive type that say the same are found to be one.
 */
function mergeEqual(entries: readonly Entry[], groupOf: (ref: string) => string): void {
  let count = 0;
  for (let parted = true; parted;) {
    parted = false;
    const texts = new Map(entries.map((entry) => [entry, JSON.stringify(mapRefs(entry.schema, groupOf))]));
    for (const members of Map.groupBy(entries, ({ group }) => group).values()) {
      const [, ...others] = Map.groupBy(members, (entry) => texts.get(entry)).values();
      for (const equal of others) {
        parted = true;
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

/** Short names; the full one where two types have the same, and a number where even that is taken. */
function nameGroups(entries: readonly Entry[], reserved: ReadonlySet<string>): Map<string, string> {
  const boundFields = new Set(reserved);
  const shortNames = new Map<string, Set<string>>();
  for (const { desc } of entries) {
    const short = shortName(desc);
    shortNames.set(short, (shortNames.get(short) ?? new Set()).add(desc.typeName));
  }
  const names = new Map<string, string>();
  for (const { desc, form, group } of entries) {
    if (names.has(group)) {
      continue;
    }
    const short = shortName(desc);
    const base = (shortNames.get(short)?.size ?? 0) > 1 || reserved.has(short) ? desc.typeName : short;
    const alone = !entries.some((other) => other.desc.typeName === desc.typeName && other.group !== group);
    const wanted = alone || form.direction === "response" ? base : base + form.suffix;
    let name = wanted;
    for (let number = 2; boundFields.has(name); number++) {
      name = `${wanted}${number}`;
    }
    boundFields.add(name);
    names.set(group, name);
  }
  return names;
}

function shortName({ typeName, file }: DescMessage | DescEnum): string {
  return file.proto.package === "" ? typeName : typeName.slice(file.proto.package.length + 1);
}
