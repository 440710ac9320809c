import * as z from "zod";
import { isPermission } from "../auth/permissions.ts";
import { permissions as knownPermissions } from "../services/routes.ts";

export const permissions = z
  .union([z.string(), z.array(z.string())], "must be a permission or a list of permissions")
  .transform((given) => (typeof given === "string" ? [given] : given))
  // The value itself stays out of the message: whoever slips a line may have put a password there.
  .refine(
    (names) => names.every((name) => isPermission(name, knownPermissions)),
    `must be one or several of: ${["*", "read", ...knownPermissions].join(", ")}`,
  )
  .readonly();
