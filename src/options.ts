import { validateHeaderName, validateHeaderValue } from "node:http";
import { BlockList, isIP } from "node:net";
import { join } from "node:path";
import * as z from "zod";
import { parsePasswordHash } from "./auth/passwords.ts";
import { isPermission } from "./auth/permissions.ts";
import { isSpiffePattern } from "./auth/spiffe.ts";
import { listenerDefaults } from "./server/listener/options.ts";
import { parseSubnet } from "./server/trusted-proxies.ts";
import { permissions as knownPermissions } from "./services/routes.ts";

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
    .superRefine((users, context) => refuseRepeated(users, "username", "users", context))
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

const tls = z.strictObject({
  certFile: text.describe("The certificate, and behind it those that lead to its authority, in PEM form."),
  keyFile: text.describe("The certificate's key, in PEM form and without a passphrase."),
  clientCaFile: text
    .optional()
    .describe(
      "The authorities of client certificates, in PEM form. No others are trusted. Needed where clients show one.",
    ),
  clientCertificate: z
    .enum(["none", "request", "require"], "must be one of: none, request, require")
    .default("none")
    .describe(
      "Whether clients show a certificate (mTLS). One that is shown must be good, also where none is required.",
    ),
  minVersion: z
    .enum(["TLSv1.2", "TLSv1.3"], "must be one of: TLSv1.2, TLSv1.3")
    .default("TLSv1.2")
    .describe("The oldest version of TLS that is spoken."),
});

const identityRule = z.strictObject({
  id: z
    .string("must be a SPIFFE ID")
    .refine(
      isSpiffePattern,
      "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*",
    )
    .describe(
      "Whose: a SPIFFE ID, or one that ends in `/*` for all that begin like it. The most specific rule counts.",
    ),
  permissions: permissions.describe("What it may do; written as a user's."),
});

const identity = z.strictObject({
  source: z
    .enum(["certificate", "forwarded"], "must be one of: certificate, forwarded")
    .describe(
      "Whose word counts: `certificate` is the client's own certificate, `forwarded` the X-Forwarded-Client-Cert of `trustedProxies`.",
    ),
  rules: z
    .array(identityRule, "must be a list of rules")
    .min(1, "must have at least one rule")
    .superRefine((rules, context) => refuseRepeated(rules, "id", "rules", context))
    .readonly()
    .describe("What workloads may do."),
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

const cors = z.strictObject({
  origins: z
    .array(
      z
        .string("must be an origin")
        .refine(isOrigin, 'must be "*" or an origin as browsers send it, such as https://app.example, without path'),
      "must be a list of origins",
    )
    .min(1, "must name at least one origin")
    .readonly()
    .describe('Their origins, such as `https://app.example`; `"*"` is any page on the web.'),
  maxAgeSeconds: wholeNumber(0, 86_400).default(600).describe("For how long a browser need not ask again."),
});

/** The listener's own defaults are these. */
const connectionLimits = {
  connections: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connections)
    .describe("The connections at once; more are reset."),
  connectionsPerSource: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connectionsPerSource)
    .describe(
      "The connections at once from one IPv4 address, or one /64 of IPv6; more are reset. `trustedProxies` may have as many as there are.",
    ),
  callsPerConnection: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.callsPerConnection)
    .describe("The calls at once on one connection: HTTP/2 streams, or HTTP/1.1 requests sent ahead of their answers."),
  headerBytes: wholeNumber(1024, 65_536)
    .default(listenerDefaults.headerBytes)
    .describe("The largest header of a request; larger ones are answered with 431, over HTTP/2 with a reset."),
  headerFields: wholeNumber(8, 10_000)
    .default(listenerDefaults.headerFields)
    .describe("The most fields that a header may have; more are answered as a larger one."),
  firstByteTimeoutMs: milliseconds
    .default(listenerDefaults.firstByteTimeoutMs)
    .describe(
      "How long a connection may take until its protocol shows: its TLS handshake and first bytes, or the whole beginning of HTTP/2.",
    ),
  headersTimeoutMs: milliseconds
    .default(listenerDefaults.headersTimeoutMs)
    .describe("How long the header of a request may take."),
  requestTimeoutMs: milliseconds
    .default(listenerDefaults.requestTimeoutMs)
    .describe(
      "How long a whole request may take to arrive, body included, unless its answer has begun; and how long one piece of an answer may wait.",
    ),
  idleTimeoutMs: milliseconds
    .default(listenerDefaults.idleTimeoutMs)
    .describe(
      "How long a connection may have no call. Be slower than the proxies in front, so that they end it first.",
    ),
  stallTimeoutMs: milliseconds
    .default(listenerDefaults.stallTimeoutMs)
    .describe("How long a body, or an answer that its client should take, may move slower than `minBytesPerSecond`."),
  minBytesPerSecond: wholeNumber(0, 1_000_000)
    .default(listenerDefaults.minBytesPerSecond)
    .describe("The pace that `stallTimeoutMs` asks for; 0: any byte will do."),
  resetsPerSecond: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.resetsPerSecond)
    .describe(
      "How many HTTP/2 streams a client may reset; ten times as many at once. Beyond, its connection is ended, as by the next two.",
    ),
  invalidFrames: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.invalidFrames)
    .describe("How many HTTP/2 frames of a connection may make no sense, such as DATA without data."),
  overheadBytesPerSecond: wholeNumber(1, 1_000_000_000)
    .default(listenerDefaults.overheadBytesPerSecond)
    .describe(
      "How much an HTTP/2 connection may send that is no call: PING, SETTINGS, WINDOW_UPDATE, padding; a minute's worth at once.",
    ),
  connectionAgeMs: milliseconds
    .optional()
    .describe(
      "After so long, give or take a tenth, a connection ends as soon as its calls have, so that load spreads anew. Absent: never.",
    ),
};

const metrics = z.strictObject({
  enabled: flag.default(true).describe("Whether anything is measured, and shown at `/metrics`."),
  port: port
    .optional()
    .describe(
      "A port of its own for `/metrics`, where no token is needed; 0 takes a free one. Absent: it is on `port`, for who has the permission `metrics.read`.",
    ),
  host: text.default("127.0.0.1").describe("The address of `metrics.port`. Whoever reaches it may read the metrics."),
});

const tracing = z.strictObject({
  endpoint: z
    .string("must be a URL")
    .refine(
      isPlainUrl,
      "must be an http or https URL such as http://127.0.0.1:4318/v1/traces, without user and password: those go into tracing.headers",
    )
    .describe(
      "Where an OpenTelemetry collector takes spans by OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`.",
    ),
  headers: z
    .record(z.string(), z.string("must be text"))
    .refine(
      (headers) => Object.entries(headers).every(([name, value]) => isHeader(name, value)),
      "must be names and values of HTTP headers",
    )
    .readonly()
    .default({})
    .describe("Sent with the spans, to authenticate to the collector, say. Never logged."),
  sampleRatio: z
    .number("must be a number from 0 to 1")
    .min(0, "must be a number from 0 to 1")
    .max(1, "must be a number from 0 to 1")
    .default(1)
    .describe("The part of all traces that is recorded, of those that begin here; for others the caller has decided."),
  serviceName: text.default("flowgate").describe("The name of the service in its traces (`service.name`)."),
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
    tls: tls
      .optional()
      .describe(
        "Serves everything on `port` over TLS. Changed files are taken without a restart. Absent: without TLS.",
      ),
    trustedProxies: z
      .array(
        z
          .string("must be an address or a subnet")
          .refine(
            (subnet) => parseSubnet(subnet) !== undefined,
            "must be an address such as 10.0.0.1 or a subnet such as 10.0.0.0/8, and not everyone",
          ),
        "must be a list of addresses and subnets",
      )
      .readonly()
      .default([])
      .describe(
        "The proxies, by address or subnet, whose X-Forwarded-For tells the client's address and X-Forwarded-Proto the scheme. From all others such headers count for nothing.",
      ),
    identity: identity
      .optional()
      .describe("What workloads with a SPIFFE ID may do without a token. Absent: they are not told apart."),
    allowUnauthenticated: flag.default(false).describe("Lets `host` be other than loopback without `adminAuth`."),
    hosts: z
      .array(
        text.regex(
          /^[a-z\d_-]+(?:\.[a-z\d_-]+)*$/i,
          "must be a name such as flows.example, without scheme, port and path",
        ),
        "must be a list of names",
      )
      .readonly()
      .default([])
      .describe(
        "The names by which clients call the service, besides `host`, `localhost` and addresses. Where a request needs no token and `tls` is absent, one to any other name is answered 421.",
      ),
    cors: cors.optional().describe("Which web pages of other origins may use the service. Absent: none."),
    credentialSecret: text
      .optional()
      .describe(
        "What the credentials of flows are encrypted with, at rest and in a deployment's encrypted (`$`) form. Absent: a key is made and kept in the data directory, and the encrypted form is refused.",
      ),
    docs: flag
      .default(true)
      .describe("Whether the API is described at `/openapi.json` and `/docs`; both need no token and show no secret."),
    reflection: z
      .enum(["off", "authenticated", "open"], "must be one of: off, authenticated, open")
      .optional()
      .describe(
        "Who may ask for the RPC services by gRPC server reflection: no one, whoever is authenticated, or everyone. Absent: `open` without `adminAuth` and `identity`, `authenticated` with either.",
      ),
    metrics: metrics.prefault({}),
    tracing: tracing
      .optional()
      .describe("Records each call, its commit and its start in the runtime as an OpenTelemetry trace. Absent: no."),
    runtime: runtime.prefault({}),
    limits: z
      .strictObject({
        bodyBytes: wholeNumber(1, 1_073_741_824)
          .default(16_777_216)
          .describe("The largest body of a request, as it is after decompression; larger ones are answered with 413."),
        inFlight: wholeNumber(0, 1_000_000)
          .default(1000)
          .describe(
            "How many calls are served at once, and how many streams; more are answered with 503. 0: as many as come.",
          ),
        inFlightPerSource: wholeNumber(0, 1_000_000)
          .default(250)
          .describe(
            "How many of them may be one client's: of one IPv4 address, or one /64 of IPv6; more are answered with 503. `trustedProxies` may have all. 0: as `inFlight`.",
          ),
        eventLoopDelayMs: wholeNumber(0, 60_000)
          .default(500)
          .describe(
            "How late the event loop may run, smoothed, before calls are answered with 503. 0: as late as it gets.",
          ),
        deadlineMs: milliseconds
          .default(3_600_000)
          .describe(
            "The longest deadline that a call can set; longer ones are cut to this. A call without one has none.",
          ),
        ...connectionLimits,
      })
      .prefault({}),
    drain: z
      .strictObject({
        delayMs: wholeNumber(0, 86_400_000)
          .default(0)
          .describe(
            "How long, after SIGTERM, calls are taken as before while health says that the service leaves. As long as load balancers take to notice; 5000, say, in Kubernetes.",
          ),
        graceMs: milliseconds
          .default(10_000)
          .describe("How long, after that, calls in flight may take, and the flows to stop, before they are cut off."),
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
  .superRefine(({ host, port, runtime, adminAuth, allowUnauthenticated, identity, reflection }, context) => {
    if (port !== 0 && port === runtime.port && overlap(host, runtime.host)) {
      context.addIssue({
        code: "custom",
        path: ["runtime", "port"],
        message: "must be another than port, which the API takes",
      });
    }
    if (reflection === "authenticated" && adminAuth === undefined && identity === undefined) {
      context.addIssue({
        code: "custom",
        path: ["reflection"],
        message:
          "can't be authenticated, since neither adminAuth nor identity is set: set one of them, or say off or open",
      });
    }
    if (adminAuth === undefined && identity === undefined && !allowUnauthenticated && !isLoopback(host)) {
      context.addIssue({
        code: "custom",
        path: ["host"],
        message:
          "would let everyone on the network in, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true",
      });
    }
  })
  .superRefine(({ host, port, runtime, metrics }, context) => {
    const taken = [
      { host, port },
      { host: runtime.host, port: runtime.port },
    ];
    if (metrics.port !== 0 && taken.some((one) => one.port === metrics.port && overlap(one.host, metrics.host))) {
      context.addIssue({
        code: "custom",
        path: ["metrics", "port"],
        message: "must be another than port and runtime.port; without it, the metrics are on port",
      });
    }
  })
  .superRefine(checkIdentity)
  .superRefine(({ adminAuth, identity, allowUnauthenticated, cors }, context) => {
    if (cors?.origins.includes("*") === true && (adminAuth ?? identity) === undefined && !allowUnauthenticated) {
      context.addIssue({
        code: "custom",
        path: ["cors", "origins"],
        message:
          'would let every page on the web do everything with "*", since adminAuth is not set: name the origins, set adminAuth, or set allowUnauthenticated: true',
      });
    }
  });

/** What makes sense only together: who may vouch for a workload. */
function checkIdentity({ tls, trustedProxies, identity }: IdentityOptions, context: z.RefinementCtx): void {
  const shown = tls !== undefined && tls.clientCertificate !== "none";
  const refuse = (path: string[], message: string): void => context.addIssue({ code: "custom", path, message });
  if (shown && tls.clientCaFile === undefined) {
    refuse(["tls", "clientCaFile"], "is missing: it says whose client certificates are good");
  }
  if (tls?.clientCaFile !== undefined && !shown) {
    refuse(["tls", "clientCaFile"], 'is for nothing, unless tls.clientCertificate is "request" or "require"');
  }
  if (identity?.source === "certificate" && !shown) {
    refuse(["identity", "source"], 'needs client certificates: set tls.clientCertificate to "request" or "require"');
  }
  if (identity?.source === "forwarded" && trustedProxies.length === 0) {
    refuse(["identity", "source"], "needs trustedProxies: from others than them anyone could claim to be anyone");
  }
}

type IdentityOptions = {
  readonly tls?: z.output<typeof tls> | undefined;
  readonly trustedProxies: readonly string[];
  readonly identity?: z.output<typeof identity> | undefined;
};

/** What an embedder, or a configuration file, gives. */
export type OptionsInput = z.input<typeof optionsSchema>;

/** Complete: whatever was not given has its default. */
export type Options = Omit<z.output<typeof optionsSchema>, "runtime" | "reflection"> & {
  reflection: "off" | "authenticated" | "open";
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
export function formatOptionPath(path: readonly (string | number)[]): string {
  return path.length === 0
    ? "options"
    : path.map((step, at) => (typeof step === "number" ? `[${step}]` : at === 0 ? step : `.${step}`)).join("");
}

/** Whether no two can listen on one port of these. */
function overlap(one: string, other: string): boolean {
  const covers = (host: string, other: string): boolean =>
    host === other || host === "::" || (host === "0.0.0.0" && isIP(other) !== 6);
  return covers(one, other) || covers(other, one);
}

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}

function wholeNumber(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.int(error).min(min, error).max(max, error);
}

function refuseRepeated<Key extends string>(
  items: readonly Readonly<Record<Key, string>>[],
  key: Key,
  list: string,
  context: z.RefinementCtx,
): void {
  const first = new Map<string, number>();
  for (const [at, { [key]: value }] of items.entries()) {
    const earlier = first.get(value);
    if (earlier === undefined) {
      first.set(value, at);
    } else {
      context.addIssue({ code: "custom", path: [at, key], message: `is the same as that of ${list}[${earlier}]` });
    }
  }
}

/** As browsers serialize them; those of other schemes, as of an extension, have no port. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text)
    ? URL.parse(text)?.origin === text && !text.includes("*")
    : text === "*" || /^[a-z][a-z\d+.-]*:\/\/[\w.-]+$/.test(text);
}

/** 127.0.0.0/8 and ::1, also where the first is mapped into IPv6. */
export function isLoopback(host: string): boolean {
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
