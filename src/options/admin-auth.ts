import * as z from "zod";
import { parsePasswordHash } from "../auth/passwords.ts";
import { permissions } from "./permissions.ts";
import { rejectDuplicates, text, wholeNumber } from "./values.ts";

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
    '`"*"` permits every operation, `"read"` every `*.read` permission, and a name such as `flows.write` only itself. A list combines several.',
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
