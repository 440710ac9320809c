/** Permissions that "read" does not include, since they give access to the data that flows process. */
const sensitive: ReadonlySet<string> = new Set(["context.read", "debug.read", "logs.read"]);

/**
 * True if the permissions of a caller, as `getIdentity` returns them, include one such as `flows.write`, at least on some tabs. For the user
 * interface of a client: the service checks the permissions of each call.
 */
export function permits(permissions: readonly string[], permission: string): boolean {
  return permissions.some((granted) => includes(granted, permission));
}

function includes(granted: string, permission: string): boolean {
  if (granted === "*") {
    return permission !== "flows.deploy_unapproved";
  }
  if (granted === "read") {
    return permission.endsWith(".read") && !sensitive.has(permission);
  }
  return granted === permission || granted.startsWith(`${permission}@tab:`);
}
