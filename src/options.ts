import { BlockList, isIP } from "node:net";
import { join } from "node:path";
import * as z from "zod";
import { permissionsOf } from "./auth/access.ts";
import { parsePasswordHash } from "./auth/passwords.ts";
import { isPermission } from "./auth/permissions.ts";
import { services } from "./services/routes.ts";

const knownPermissions = permissionsOf(services);

const text = z.string("must be text").min(1, "must not be empty");
const flag = z.boolean("must be true or false");
const port = wholeNumber(0, 65_535);
const milliseconds = wholeNumber(1, 86_400_000);
const paths = z.array(text, "must be a list of paths").readonly();

const permissions = z
  .union([z.string(), z.array(z.string())], "must be a permission or a list of permissions")
  .transform((given) => (typeof given === "string" ? [given] : given))
  // The value itself stays out of the message: whoever slips a line may have put a password there.
  .refine(
    (names) => names.every((name) => isPermission(name, knownPermissions)),
    `must be one or several of: ${["*", "read", ...knownPermissions].join(", ")}`,
  )
  .readonly();

const user = z.strictObject({
  username: text.describe("The name to log in with. No two users have the same."),
  password: z
    .string("must be a password hash; `flowgate hash-password` makes one")
    .refine(
      (hash) => parsePasswordHash(hash) !== undefined,
      "must be an argon2id or bcrypt hash, not the password itself, and of bearable cost; `flowgate hash-password` makes one",
    )
    .describe("The password's argon2id or bcrypt hash, never the password. `flowgate hash-password` makes one."),
  permissions: permissions.describe(
    '`"*"` allows everything, `"read"` every `*.read`, a name such as `flows.write` just itself; or a list of these.',
  ),
});

const adminAuth = z.strictObject({
  type: z
    .literal("credentials", 'must be "credentials"')
    .default("credentials")
    .describe("How users prove who they are; there is no other way yet."),
  users: z
    .array(user, "must be a list of users")
    .min(1, "must name at least one user")
    .superRefine(refuseNamesakes)
    .readonly()
    .describe("Who may log in."),
  default: z
    .strictObject({ permissions: permissions.describe("What a request without a token may do; written as a user's.") })
    .optional()
    .describe("Absent: a request without a token may do nothing."),
  clientIds: z
    .array(text, "must be a list of client ids")
    .min(1, "must name at least one client id")
    .readonly()
    .default(["service-admin", "service-editor"])
    .describe("The values of `client_id` that may ask for a token."),
  tokenLifetimeSeconds: wholeNumber(1, 2_147_483_647)
    .default(604_800)
    .describe("How long a token is good for; a week, unless it is revoked before."),
});

const runtime = z.strictObject({
  host: text
    .default("127.0.0.1")
    .describe("Where the flows' own HTTP-in nodes answer. They are not behind `adminAuth`."),
  port: port.default(1880).describe("The port of the flows' HTTP-in nodes; 0 takes a free one."),
  dir: text
    .optional()
    .describe(
      "The runtime's working directory. Flows may write here, and nowhere else unless `runtime.allow` says so.",
    ),
  deadlineMs: milliseconds
    .default(30_000)
    .describe("How long a deployment's answer waits for the runtime at most; the deployment stands all the same."),
  maxOldSpaceMb: wholeNumber(16, 1_048_576)
    .optional()
    .describe("The heap that the runtime's process may take, in MiB. Absent: Node's own limit."),
  nodeCloseTimeoutMs: milliseconds.default(5000).describe("How long a node may take to stop before it is left behind."),
  restart: z
    .strictObject({
      backoffMs: milliseconds
        .default(100)
        .describe("The pause before a runtime that ended is started again; doubled each time."),
      maxBackoffMs: milliseconds.default(10_000).describe("The longest such pause."),
      shortLifeMs: milliseconds.default(30_000).describe("A runtime that ends sooner than this had a short life."),
      safeModeAfter: wholeNumber(1, 1000)
        .default(5)
        .describe(
          "After so many short lives in a row the flows are loaded but not started, until the next deployment.",
        ),
    })
    .prefault({}),
  allow: z
    .strictObject({
      fileSystemRead: paths.default([]).describe("More paths that flows may read, besides the runtime's own."),
      fileSystemWrite: paths
        .default([])
        .describe("More paths that flows may write, besides `runtime.dir`; a Unix socket needs its path here."),
      childProcess: flag
        .default(false)
        .describe("Whether flows may start processes (the exec node). Such processes are free of all limits."),
      worker: flag
        .default(false)
        .describe("Whether flows may start worker threads. Such threads are free of most limits."),
      nativeAddons: flag.default(false).describe("Whether flows may load native addons."),
      env: z
        .array(text, "must be a list of names")
        .readonly()
        .default([])
        .describe("The environment variables that flows may see."),
    })
    .prefault({}),
});

/** Every option with its default and meaning. docs/configuration.md shows the same, and a test compares them. */
export const optionsSchema = z
  .strictObject({
    host: text.default("127.0.0.1").describe("The address to listen on. Others than loopback ask for `adminAuth`."),
    port: port
      .default(8080)
      .describe("The port of the administration API, for HTTP, Connect, gRPC and gRPC-Web; 0 takes a free one."),
    dataDir: text
      .default("./data")
      .describe("Where revisions, credentials and tokens are kept; made if it is missing."),
    adminAuth: adminAuth
      .optional()
      .describe("Who may use the API. Absent: everyone who reaches the port may do everything."),
    allowUnauthenticated: flag.default(false).describe("Lets `host` be other than loopback without `adminAuth`."),
    credentialSecret: text
      .optional()
      .describe(
        "What the credentials of flows are encrypted with, at rest and in a deployment's encrypted (`$`) form. Absent: a key is made and kept in the data directory, and the encrypted form is refused.",
      ),
    docs: flag
      .default(true)
      .describe("Whether the API is described at `/openapi.json` and `/docs`; both need no token and show no secret."),
    runtime: runtime.prefault({}),
    limits: z
      .strictObject({
        bodyBytes: wholeNumber(1, 1_073_741_824)
          .default(16_777_216)
          .describe("The largest body of a request, as it is after decompression; larger ones are answered with 413."),
      })
      .prefault({}),
    log: z
      .strictObject({
        level: z
          .enum(
            ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
            "must be one of: trace, debug, info, warn, error, fatal, silent",
          )
          .default("info")
          .describe("What is logged: this level and graver ones."),
      })
      .prefault({}),
  })
  .superRefine(({ host, port, runtime, adminAuth, allowUnauthenticated }, context) => {
    if (port !== 0 && port === runtime.port && host === runtime.host) {
      context.addIssue({
        code: "custom",
        path: ["runtime", "port"],
        message: "must be another than port, which the API takes",
      });
    }
    if (adminAuth === undefined && !allowUnauthenticated && !isLoopback(host)) {
      context.addIssue({
        code: "custom",
        path: ["host"],
        message:
          "would let everyone on the network in, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true",
      });
    }
  });

/** What an embedder, or a configuration file, gives. */
export type OptionsInput = z.input<typeof optionsSchema>;

/** Complete: whatever was not given has its default. */
export type Options = Omit<z.output<typeof optionsSchema>, "runtime"> & {
  runtime: z.output<typeof runtime> & { dir: string };
};

export type OptionsProblem = {
  readonly path: readonly (string | number)[];
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

/** Fills in every default. Throws an OptionsError that names each key that is unknown or wrong. */
export function parseOptions(input: OptionsInput): Options {
  const result = optionsSchema.safeParse(input, { error: describeIssue });
  if (!result.success) {
    throw new OptionsError(result.error.issues.flatMap(toProblems));
  }
  const { data } = result;
  return { ...data, runtime: { ...data.runtime, dir: data.runtime.dir ?? join(data.dataDir, "runtime") } };
}

/** As in `adminAuth.users[0].password`. */
export function formatOptionPath(path: readonly (string | number)[]): string {
  return path.length === 0
    ? "options"
    : path.map((step, at) => (typeof step === "number" ? `[${step}]` : at === 0 ? step : `.${step}`)).join("");
}

function wholeNumber(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.int(error).min(min, error).max(max, error);
}

function refuseNamesakes(users: readonly { username: string }[], context: z.RefinementCtx): void {
  const first = new Map<string, number>();
  for (const [at, { username }] of users.entries()) {
    const earlier = first.get(username);
    if (earlier === undefined) {
      first.set(username, at);
    } else {
      context.addIssue({
        code: "custom",
        path: [at, "username"],
        message: `is the same as that of users[${earlier}]`,
      });
    }
  }
}

/** 127.0.0.0/8 and ::1, also where the first is mapped into IPv6. */
function isLoopback(host: string): boolean {
  if (host === "localhost") {
    return true;
  }
  const version = isIP(host);
  return version !== 0 && loopback.check(host, version === 6 ? "ipv6" : "ipv4");
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** What the schema above leaves to say. */
function describeIssue(issue: { readonly code?: string; readonly input?: unknown }): string | undefined {
  if (issue.code !== "invalid_type") {
    return undefined;
  }
  return issue.input === undefined ? "is missing" : "must be keys and values";
}

function toProblems(issue: z.core.$ZodIssue): OptionsProblem[] {
  const path = issue.path.filter((step) => typeof step !== "symbol");
  if (issue.code !== "unrecognized_keys") {
    return [{ path, message: issue.message }];
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
