import { join } from "node:path";
import * as z from "zod";
import { type JsonPath, formatPath } from "@flowgate/gateway/json-path";
import { defaultMemoryMb, type limits } from "./limits.ts";
import type { runtime } from "./runtime.ts";
import { readRoles } from "./permissions.ts";
import { editorPort } from "./node-red.ts";
import { optionsSchema, optionsSchemaWith } from "./schema.ts";

/** Partial options, as passed by an embedder or read from a configuration file. */
export type OptionsInput = z.input<typeof optionsSchema>;

/** Complete options, with all defaults filled in. */
export type Options = Omit<z.output<typeof optionsSchema>, "console" | "limits" | "runtime" | "reflection"> & {
  console: boolean;
  reflection: "off" | "authenticated" | "open";
  limits: z.output<typeof limits> & { memoryMb: number };
  runtime: z.output<typeof runtime> & { dir: string };
};

export type OptionsProblem = {
  readonly path: JsonPath;
  /** Never contains the value, which may be a secret. */
  readonly message: string;
  /** For an unknown key: the keys that are known there. */
  readonly knownKeys?: readonly string[];
};

/** Invalid options, with all their problems. The message has one line per problem. */
export class OptionsError extends Error {
  readonly problems: readonly OptionsProblem[];

  constructor(problems: readonly OptionsProblem[]) {
    super(problems.map(({ path, message }) => `${formatOptionPath(path)}: ${message}`).join("\n"));
    this.name = "OptionsError";
    this.problems = problems;
  }
}

/**
 * Validates options and fills in all defaults. Idempotent. Throws an OptionsError that lists each key that is unknown or
 * invalid.
 */
export function parseOptions(input: OptionsInput | Options): Options {
  const { roles = {} } = Object(input) as { roles?: unknown };
  const schema = Object.keys(Object(roles)).length === 0 ? optionsSchema : optionsSchemaWith(readRoles(roles));
  // Options are read once: code that zod generates for them would cost more than it saves.
  const result = schema.safeParse(input, { error: describeIssue, reportInput: true, jitless: true });
  if (!result.success) {
    throw new OptionsError(result.error.issues.flatMap(toProblems));
  }
  const { data } = result;
  return {
    ...data,
    console: data.console ?? data.docs,
    reflection: data.reflection ?? ((data.adminAuth ?? data.identity) === undefined ? "open" : "authenticated"),
    limits: { ...data.limits, memoryMb: data.limits.memoryMb ?? defaultMemoryMb() },
    nodeRed: { ...data.nodeRed, port: data.nodeRed.port ?? (data.nodeRed.editor === false ? undefined : editorPort) },
    runtime: { ...data.runtime, dir: data.runtime.dir ?? join(data.dataDir, "runtime") },
  };
}

/** Formats a path as in `adminAuth.users[0].password`. */
export function formatOptionPath(path: JsonPath): string {
  return path.length === 0 ? "options" : formatPath(path);
}

const missing = "is missing";

function describeIssue(issue: { readonly code?: string; readonly input?: unknown }): string | undefined {
  if (issue.code !== "invalid_type") {
    return undefined;
  }
  return issue.input === undefined ? missing : "must be keys and values";
}

function toProblems(issue: z.core.$ZodIssue): OptionsProblem[] {
  const path = issue.path.filter((step) => typeof step !== "symbol");
  if (issue.code !== "unrecognized_keys") {
    // The message of a schema applies to a missing value too, but does not mention that it is missing.
    const isMissing = issue.code === "invalid_type" && issue.input === undefined && issue.message !== missing;
    return [{ path, message: isMissing ? `${missing}: it ${issue.message}` : issue.message }];
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
