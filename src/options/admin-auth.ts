import * as z from "zod";
import { parsePasswordHash } from "../auth/passwords.ts";
import { permissions } from "./permissions.ts";
import { refuseRepeated, text, wholeNumber } from "./values.ts";

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

export const adminAuth = z.strictObject({
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
