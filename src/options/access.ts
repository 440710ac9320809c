import * as z from "zod";
import { parsePasswordHash } from "../auth/passwords.ts";
import { isPermission } from "../auth/permissions.ts";
import { isSpiffePattern } from "../auth/workload.ts";
import { permissions as knownPermissions } from "../services/api.ts";
import type { tls } from "./connections.ts";
import { rejectDuplicates, text, wholeNumber } from "./values.ts";

const permissions = z
  .union([z.string(), z.array(z.string())], "must be a permission or a list of permissions")
  .transform((names) => (typeof names === "string" ? [names] : names))
  // The message does not contain the value, which may be a misplaced password.
  .refine(
    (names) => names.every((name) => isPermission(name, knownPermissions)),
    `must be one or several of: ${["*", "read", ...knownPermissions].join(", ")}`,
  )
  .readonly();

const user = z.strictObject({
  username: text.describe("Name to log in with. Must be unique."),
  password: z
    .string("must be a password hash; `flowgate hash-password` creates one")
    .refine(
      (hash) => parsePasswordHash(hash) !== undefined,
      "must be an argon2id or bcrypt hash, not the password itself, with a cost within the supported range; `flowgate hash-password` creates one",
    )
    .describe(
      "The argon2id or bcrypt hash of the password, never the password itself. `flowgate hash-password` creates one.",
    ),
  permissions: permissions.describe(
    '`"*"` permits every operation, `"read"` every `*.read` permission but `debug.read` and `logs.read`, and a name such as `flows.write` only itself. A list combines several.',
  ),
});

export const adminAuth = z.strictObject({
  type: z
    .literal("credentials", 'must be "credentials"')
    .default("credentials")
    .describe("How users authenticate: by name and password. There is no other value."),
  users: z
    .array(user, "must be a list of users")
    .min(1, "must name at least one user")
    .superRefine((users, context) => rejectDuplicates(users, "username", "users", context))
    .readonly()
    .describe("The users that can log in."),
  default: z
    .strictObject({ permissions: permissions.describe("In the same form as the permissions of a user.") })
    .optional()
    .describe("Permissions of requests without a token. Absent: none."),
  clientIds: z
    .array(text, "must be a list of client ids")
    .min(1, "must name at least one client id")
    .readonly()
    .default(["service-admin", "service-editor"])
    .describe("Accepted values of `client_id` in a token request."),
  tokenLifetimeSeconds: wholeNumber(1, 2_147_483_647)
    .default(604_800)
    .describe("Lifetime of a token. The default is one week."),
  maxTokensPerUser: wholeNumber(1, 1_000_000)
    .default(100)
    .describe("Maximum number of named tokens of a user, without expired ones. A further one is rejected with 429."),
  maxTokens: wholeNumber(1, 1_000_000)
    .default(1000)
    .describe("Maximum number of named tokens of all users, handled like `maxTokensPerUser`."),
});

const identityRule = z.strictObject({
  id: z
    .string("must be a SPIFFE ID")
    .refine(
      isSpiffePattern,
      "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*",
    )
    .describe("A SPIFFE ID, or a prefix followed by `/*`. The most specific matching rule applies."),
  permissions: permissions.describe("In the same form as the permissions of a user."),
});

export const identity = z.strictObject({
  source: z
    .enum(["certificate", "forwarded"], "must be one of: certificate, forwarded")
    .describe(
      "Where the SPIFFE ID is read from: `certificate` is the client certificate of the connection, `forwarded` the X-Forwarded-Client-Cert header set by `trustedProxies`.",
    ),
  rules: z
    .array(identityRule, "must be a list of rules")
    .min(1, "must have at least one rule")
    .superRefine((rules, context) => rejectDuplicates(rules, "id", "rules", context))
    .readonly()
    .describe("Permissions by SPIFFE ID."),
});

/** The path of an option, and why it can't be combined with others. */
export type Conflict = readonly [path: string, message: string];

export function* findIdentityConflicts({ tls, trustedProxies, identity }: IdentityOptions): Generator<Conflict> {
  const hasClientCertificates = tls !== undefined && tls.clientCertificate !== "none";
  if (hasClientCertificates && tls.clientCaFile === undefined) {
    yield ["tls.clientCaFile", "is missing: it is required to verify client certificates"];
  }
  if (tls?.clientCaFile !== undefined && !hasClientCertificates) {
    yield ["tls.clientCaFile", 'has no effect unless tls.clientCertificate is "request" or "require"'];
  }
  if (identity?.source === "certificate" && !hasClientCertificates) {
    yield ["identity.source", 'requires client certificates: set tls.clientCertificate to "request" or "require"'];
  }
  if (identity?.source === "forwarded" && trustedProxies.length === 0) {
    yield ["identity.source", "requires trustedProxies: other clients could forge the header"];
  }
}

type IdentityOptions = {
  readonly tls?: z.output<typeof tls> | undefined;
  readonly trustedProxies: readonly string[];
  readonly identity?: z.output<typeof identity> | undefined;
};
