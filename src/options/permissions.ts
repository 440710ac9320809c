import * as z from "zod";
import { isPermission } from "../auth/permissions.ts";
import { permissions as knownPermissions } from "../services/api.ts";

export const permissions = z
  .union([z.string(), z.array(z.string())], "must be a permission or a list of permissions")
  .transform((names) => (typeof names === "string" ? [names] : names))
  // The message does not contain the value, which may be a misplaced password.
  .refine(
    (names) => names.every((name) => isPermission(name, knownPermissions)),
    `must be one or several of: ${["*", "read", ...knownPermissions].join(", ")}`,
  )
  .readonly();
