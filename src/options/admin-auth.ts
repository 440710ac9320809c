import * as z from "zod";
import { parsePasswordHash } from "../auth/passwords.ts";
import { permissions } from "./permissions.ts";
import { rejectDuplicates, text, wholeNumber } from "./values.ts";

const user = z.strictObject({
  username: text.describe("The login name; must be unique."),
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
    '`"*"` for all permissions, `"read"` for every `*.read`, a name such as `flows.write`, or a list of these.',
  ),
});

export const adminAuth = z.strictObject({
  type: z
    .literal("credentials", 'must be "credentials"')
    .default("credentials")
    .describe("How users authenticate; only this value is supported."),
  users: z
    .array(user, "must be a list of users")
    .min(1, "must name at least one user")
    .superRefine((users, context) => rejectDuplicates(users, "username", "users", context))
    .readonly()
    .describe("The users that can log in."),
  default: z
    .strictObject({
      permissions: permissions.describe("The permissions of a request without a token, in the same form as a user's."),
    })
    .optional()
    .describe("Absent: a request without a token has no permissions."),
  clientIds: z
    .array(text, "must be a list of client ids")
    .min(1, "must name at least one client id")
    .readonly()
    .default(["service-admin", "service-editor"])
    .describe("The values of `client_id` that can request a token."),
  tokenLifetimeSeconds: wholeNumber(1, 2_147_483_647)
    .default(604_800)
    .describe("The lifetime of a token, unless it is revoked before. Defaults to a week."),
});
