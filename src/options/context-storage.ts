import * as z from "zod";
import { flag, text } from "./values.ts";

const seconds = z
  .number("must be a number of seconds")
  .min(0, "must not be negative")
  .max(86_400, "must be at most 86400 seconds");

const files = z
  .strictObject({
    base: text.regex(/^[\w-]+$/, "must be the name of a folder: letters, digits, _ and -").default("context"),
    cache: flag.default(true),
    flushInterval: seconds.default(30),
  })
  .prefault({});

const database = z.strictObject({ flushInterval: seconds.default(1) }).prefault({});

const contextStore = z.discriminatedUnion(
  "module",
  [
    z.strictObject({ module: z.literal("memory"), config: z.strictObject({}).optional() }),
    z.strictObject({ module: z.literal("localfilesystem"), config: files }),
    z.strictObject({ module: z.literal("database"), config: database }),
  ],
  "must be a store with one of these modules: memory, localfilesystem, database",
);

type Stores = Record<string, z.output<typeof contextStore> | string>;

export const contextStorage = z
  .record(z.string(), z.unknown(), "must be names and their stores")
  .transform((stores, context) => {
    const parsed: Stores = {};
    for (const [key, store] of Object.entries(stores)) {
      const result = key === "default" && typeof store === "string" ? undefined : contextStore.safeParse(store);
      for (const issue of result?.error?.issues ?? []) {
        context.issues.push({ ...issue, input: store, path: [key, ...issue.path] } as z.core.$ZodRawIssue);
      }
      parsed[key] = result?.data ?? String(store);
    }
    for (const [key, message] of findConflicts(parsed)) {
      context.addIssue({ code: "custom", path: [key], message });
    }
    return parsed;
  })
  .readonly()
  .default({})
  .describe(
    "Context stores of flows, in the form of Node-RED's `contextStorage`: names of stores, each with a `module`, which is `memory`, `localfilesystem` or `database`, and its `config`. The store `default`, or the first one, is the default one; `default` can also be the name of another one. Absent: in memory.",
  );

function* findConflicts(stores: Stores): Generator<[name: string, message: string]> {
  const folders = new Map<string, string>();
  for (const [key, store] of Object.entries(stores)) {
    if (!/^(?!_$)\w{1,100}$/.test(key)) {
      yield [key, "must be a name of letters, digits and _"];
    }
    if (typeof store === "string") {
      if (key === "default" && (store === key || !Object.hasOwn(stores, store))) {
        yield [key, "must be a store, or the name of another store"];
      }
    } else if (store.module === "localfilesystem") {
      const { base } = store.config;
      const other = folders.get(base);
      if (other !== undefined) {
        yield [key, `has the same config.base as ${other}, so that each would overwrite the values of the other`];
      }
      folders.set(base, key);
    }
  }
}
