/**
 * Whether these permissions allow this one. "*" allows all, "read" every "<something>.read", any other
 * name just itself.
 */
export function allows(permissions: readonly string[], permission: string): boolean {
  return permissions.some((granted) => includes(granted, permission));
}

/** Whether everything known that `asked` allows is allowed by `permissions` too. */
export function covers(permissions: readonly string[], asked: readonly string[], known: ReadonlySet<string>): boolean {
  return [...known].every((name) => !allows(asked, name) || allows(permissions, name));
}

/** What both allow: a token may do what its scope and its user allow now. */
export function narrow(permissions: readonly string[], scope: readonly string[]): string[] {
  const both = permissions.flatMap((granted) =>
    scope.flatMap((asked) => {
      if (includes(granted, asked)) {
        return [asked];
      }
      return includes(asked, granted) ? [granted] : [];
    }),
  );
  return [...new Set(both)];
}

/**
 * Reads a scope: "*", "read" and known permissions, with one space between them (RFC 6749, section 3.3).
 * undefined where it is anything else.
 */
export function parseScope(scope: string, known: ReadonlySet<string>): readonly string[] | undefined {
  const names = [...new Set(scope.split(" "))];
  return names.every((name) => isPermission(name, known)) ? names : undefined;
}

/** Whether a configuration or a scope may name this: "*", "read", or a known permission. */
export function isPermission(name: string, known: ReadonlySet<string>): boolean {
  return name === "*" || name === "read" || known.has(name);
}

function includes(granted: string, asked: string): boolean {
  return granted === "*" || granted === asked || (granted === "read" && asked.endsWith(".read"));
}
