/**
 * Whether these permissions include the given one. "*" includes all, "read" includes every "<service>.read", all others
 * only themselves.
 */
export function allows(permissions: readonly string[], permission: string): boolean {
  return permissions.some((granted) => includes(granted, permission));
}

/** Whether `permissions` include all known permissions that `requested` includes. */
export function covers(
  permissions: readonly string[],
  requested: readonly string[],
  known: ReadonlySet<string>,
): boolean {
  return [...known].every((name) => !allows(requested, name) || allows(permissions, name));
}

/** The intersection of a user's current permissions and a token's scope. */
export function narrow(permissions: readonly string[], scope: readonly string[]): string[] {
  const intersection = permissions.flatMap((granted) =>
    scope.flatMap((requested) => {
      if (includes(granted, requested)) {
        return [requested];
      }
      return includes(requested, granted) ? [granted] : [];
    }),
  );
  return [...new Set(intersection)];
}

/**
 * Parses a scope: "*", "read" and known permissions, separated by single spaces (RFC 6749, section 3.3). undefined:
 * invalid.
 */
export function parseScope(scope: string, known: ReadonlySet<string>): readonly string[] | undefined {
  const names = [...new Set(scope.split(" "))];
  return names.every((name) => isPermission(name, known)) ? names : undefined;
}

/** Whether a name is valid in a configuration or a scope: "*", "read", or a known permission. */
export function isPermission(name: string, known: ReadonlySet<string>): boolean {
  return name === "*" || name === "read" || known.has(name);
}

function includes(granted: string, requested: string): boolean {
  return granted === "*" || granted === requested || (granted === "read" && requested.endsWith(".read"));
}
