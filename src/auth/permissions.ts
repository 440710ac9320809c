import { type DescMethod, type DescService, getOption, hasOption } from "@bufbuild/protobuf";
import { type Access, access } from "../../gen/flowgate/v1/access_pb.ts";

/** Permissions not included in "read", since the data that flows process may be exposed. */
const sensitive: ReadonlySet<string> = new Set(["context.read", "debug.read", "logs.read"]);

/**
 * The permission to deploy without the approval that the option `approvals.required` demands. Only itself includes it: neither "*" nor
 * a role does.
 */
export const deployUnapproved = "flows.deploy_unapproved";

/** Sets of permissions by their names, which can be used like a permission where permissions are granted. */
export type Roles = ReadonlyMap<string, readonly string[]>;

export const builtInRoles: Roles = new Map([
  ["viewer", ["read"]],
  ["deployer", ["read", "flows.write", "flows.propose", "revisions.write", "library.write"]],
  ["operator", ["read", "debug.read", "logs.read", "context.read", "context.write", "runtime.write", "runtime.inject"]],
  ["admin", ["*"]],
]);

/** The tabs, by label or id, on which these permissions include the given one. */
export function tabsOf(permissions: readonly string[], permission: string): ReadonlySet<string> {
  return new Set(
    permissions.flatMap((granted) => {
      const onTab = parseOnTab(granted);
      return onTab?.permission === permission ? [onTab.tab] : [];
    }),
  );
}

/**
 * A permission on one tab, such as `flows.write@tab:greetings`, with the label or id of the tab; undefined for other permissions. It is
 * percent-encoded as far as needed, since scopes are separated by spaces.
 */
function parseOnTab(name: string): { readonly permission: string; readonly tab: string } | undefined {
  // Permissions appear in logs and terminals.
  const [, permission = "", encoded = ""] = /^(flows\.(?:write|propose|approve))@tab:([^\s\p{C}]+)$/u.exec(name) ?? [];
  try {
    return permission === "" ? undefined : { permission, tab: decodeURIComponent(encoded) };
  } catch (error) {
    if (error instanceof URIError) {
      return undefined;
    }
    throw error;
  }
}

/** The names in configurations and scopes. */
export type KnownNames = { readonly permissions: ReadonlySet<string>; readonly roles: Roles };

/**
 * True if these permissions include the given one. "*" includes all but `flows.deploy_unapproved`, "read" includes
 * every "<service>.read" except sensitive ones, `flows.write` the same on each tab, all others only themselves.
 */
export function allows(permissions: readonly string[], permission: string): boolean {
  return permissions.some((granted) => includes(granted, permission));
}

/** True if `permissions` include the given one, at least on some tabs. */
export function allowsOnTabs(permissions: readonly string[], permission: string): boolean {
  return tabsOf(permissions, permission).size > 0;
}

/** True if `permissions` include all known permissions that `requested` includes. */
export function covers(
  permissions: readonly string[],
  requested: readonly string[],
  known: ReadonlySet<string>,
): boolean {
  const onTabs = requested.filter((name) => parseOnTab(name) !== undefined);
  return [...known, ...onTabs].every((name) => !allows(requested, name) || allows(permissions, name));
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
 * Returns the permissions of a login without a scope: all but `flows.deploy_unapproved`, which must be requested by
 * name.
 */
export function defaultScope(permissions: readonly string[]): string[] {
  return narrow(permissions, ["*"]);
}

/** Tokens are kept in memory with their scope, and the number of tabs is not limited. */
export const maxScopeChars = 4096;

/**
 * Parses a scope: "*", "read", known permissions and roles, separated by single spaces (RFC 6749, section 3.3). undefined:
 * invalid.
 */
export function parseScope(scope: string, known: KnownNames): readonly string[] | undefined {
  return scope.length > maxScopeChars ? undefined : resolvePermissions(scope.split(" "), known);
}

/** Replaces the names of roles by their permissions. undefined: one of the names is not known. */
export function resolvePermissions(
  names: readonly string[],
  { permissions, roles }: KnownNames,
): readonly string[] | undefined {
  const isKnown = names.every((name) => isPermission(name, permissions) || roles.has(name));
  return isKnown ? [...new Set(names.flatMap((name) => roles.get(name) ?? [name]))] : undefined;
}

/** True if this is "*", "read", a known permission, or one on a tab. */
function isPermission(name: string, known: ReadonlySet<string>): boolean {
  return name === "*" || name === "read" || known.has(name) || parseOnTab(name) !== undefined;
}

export function listNames({ permissions, roles }: KnownNames): string {
  return ["*", "read", ...permissions, "flows.write@tab:LABEL", ...roles.keys()].join(", ");
}

function includes(granted: string, requested: string): boolean {
  return (
    granted === requested ||
    (granted === "*" && requested !== deployUnapproved) ||
    granted === parseOnTab(requested)?.permission ||
    (granted === "read" && /^[a-z\d_]+\.read$/.test(requested) && !sensitive.has(requested))
  );
}

/** The callers permitted by a method's option `(flowgate.v1.access)`. */
export type AccessRule =
  | { readonly kind: "public" }
  | { readonly kind: "authenticated" }
  | { readonly kind: "replica" }
  | { readonly kind: "permission"; readonly permission: string };

export type AccessRules = ReadonlyMap<DescMethod, AccessRule>;

/** Reads the rule of every method. Throws if a method has none, so that none is public by omission. */
export function compileAccess(services: readonly DescService[]): AccessRules {
  return new Map(services.flatMap(({ methods }) => methods.map((method) => [method, readRule(method)])));
}

/** All permissions that methods require. */
export function permissionsOf(rules: AccessRules): ReadonlySet<string> {
  return new Set(rules.values().flatMap((rule) => (rule.kind === "permission" ? [rule.permission] : [])));
}

/** The methods that are not public: only these are served to callers with an identity while the service is overloaded. */
export function identifiedMethods(rules: AccessRules): ReadonlySet<DescMethod> {
  return new Set([...rules].filter(([, { kind }]) => kind !== "public").map(([method]) => method));
}

function readRule(method: DescMethod): AccessRule {
  const name = `${method.parent.typeName}.${method.name}`;
  if (!hasOption(method, access)) {
    throw new TypeError(`${name} has no access rule: set the option (flowgate.v1.access)`);
  }
  const rule = toRule(getOption(method, access));
  if (rule === undefined) {
    throw new TypeError(
      `${name}: its option (flowgate.v1.access) must be public: true, authenticated: true, replica: true, or a permission such as "flows.read"`,
    );
  }
  return rule;
}

function toRule({ rule }: Access): AccessRule | undefined {
  if (rule.case === "permission") {
    return /^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$/.test(rule.value)
      ? { kind: "permission", permission: rule.value }
      : undefined;
  }
  return rule.case !== undefined && rule.value ? { kind: rule.case } : undefined;
}
