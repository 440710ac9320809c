import * as z from "zod";
import { builtInRoles, type KnownNames, listNames, resolvePermissions, type Roles } from "../auth/permissions.ts";
import { permissions as knownPermissions } from "../services/api.ts";

export type Permissions = ReturnType<typeof permissionsWith>;

/** Permissions. The names of these roles are replaced by their permissions. */
export function permissionsWith(roles: Roles) {
  const known: KnownNames = { permissions: knownPermissions, roles };
  return (
    z
      .union([z.string(), z.array(z.string())], "must be a permission or a list of permissions")
      .transform((names) => resolvePermissions(typeof names === "string" ? [names] : names, known))
      // The message does not contain the value, which may be a misplaced password.
      .refine((names) => names !== undefined, `must be one or several of: ${listNames(known)}`)
      .transform((names) => names ?? [])
      .readonly()
  );
}

export const roles = z
  .record(z.string(), permissionsWith(builtInRoles), "must be names and their permissions")
  .refine(
    (roles) => Object.keys(roles).every((name) => /^(?!read$)[a-z][a-z\d-]*$/.test(name)),
    "must have names of lower-case letters, digits and hyphens, such as release-manager, other than read",
  )
  .readonly()
  .default({})
  .describe(
    "Additional roles: named sets of permissions, which may include the built-in roles `viewer`, `deployer`, `operator` and `admin`. A role with one of these names replaces the built-in one.",
  );

/** The built-in roles and those of the option `roles`. None of these if the option is invalid. */
export function readRoles(input: unknown): Roles {
  const { data = {} } = roles.safeParse(input);
  return new Map([...builtInRoles, ...Object.entries(data)]);
}
