import { join } from "node:path";
import * as z from "zod";
import { formatPath, type JsonPath } from "@flowgate/transcoding/json-path";
import type { runtime } from "./runtime.ts";
import { optionsSchema } from "./schema.ts";

/** What an embedder, or a configuration file, gives. */
export type OptionsInput = z.input<typeof optionsSchema>;

/** Complete: whatever was not given has its default. */
export type Options = Omit<z.output<typeof optionsSchema>, "runtime" | "reflection"> & {
  reflection: "off" | "authenticated" | "open";
  runtime: z.output<typeof runtime> & { dir: string };
};

export type OptionsProblem = {
  readonly path: JsonPath;
  /** Repeats no value that was given: it may be a secret. */
  readonly message: string;
  /** Where the key is unknown: those that are known in its place. */
  readonly knownKeys?: readonly string[];
};

/** Options that can't be used, with everything that is wrong with them. */
export class OptionsError extends Error {
  readonly problems: readonly OptionsProblem[];

  constructor(problems: readonly OptionsProblem[]) {
    super(problems.map(({ path, message }) => `${formatOptionPath(path)}: ${message}`).join("\n"));
    this.name = "OptionsError";
    this.problems = problems;
  }
}

/**
 * Fills in every default. Complete options stay as they are. Throws an OptionsError that names each key that is unknown
 * or wrong.
 */
export function parseOptions(input: OptionsInput | Options): Options {
  const result = optionsSchema.safeParse(input, { error: describeIssue, reportInput: true });
  if (!result.success) {
    throw new OptionsError(result.error.issues.flatMap(toProblems));
  }
  const { data } = result;
  return {
    ...data,
    reflection: data.reflection ?? ((data.adminAuth ?? data.identity) === undefined ? "open" : "authenticated"),
    runtime: { ...data.runtime, dir: data.runtime.dir ?? join(data.dataDir, "runtime") },
  };
}

/** As in `adminAuth.users[0].password`. */
export function formatOptionPath(path: JsonPath): string {
  return path.length === 0 ? "options" : formatPath(path);
}

/** What the schema leaves to say. */
function describeIssue(issue: { readonly code?: string; readonly input?: unknown }): string | undefined {
  if (issue.code !== "invalid_type") {
    return undefined;
  }
  return issue.input === undefined ? "is missing" : "must be keys and values";
}

function toProblems(issue: z.core.$ZodIssue): OptionsProblem[] {
  const path = issue.path.filter((step) => typeof step !== "symbol");
  if (issue.code !== "unrecognized_keys") {
    // A schema that says by itself what it asks for does not say that nothing is there.
    const isMissing = issue.code === "invalid_type" && issue.input === undefined && issue.message.startsWith("must ");
    return [{ path, message: isMissing ? `is missing: it ${issue.message}` : issue.message }];
  }
  const knownKeys = Object.keys(shapeAt(path));
  return issue.keys.map((key) => ({ path: [...path, key], message: "unknown key", knownKeys }));
}

/** The keys of the object at this path of the schema. */
function shapeAt(path: readonly (string | number)[]): Record<string, z.core.$ZodType> {
  let schema: z.core.$ZodType = optionsSchema;
  for (const step of path) {
    const inner = unwrap(schema);
    schema = inner instanceof z.ZodArray ? inner.element : (shapeOf(inner)[step] ?? z.never());
  }
  return shapeOf(unwrap(schema));
}

function shapeOf(schema: z.core.$ZodType): Record<string, z.core.$ZodType> {
  return schema instanceof z.ZodObject ? schema.shape : {};
}

function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  const wrapped =
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodReadonly;
  return wrapped ? unwrap(schema.unwrap()) : schema;
}
