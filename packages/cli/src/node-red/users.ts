import { parsePasswordHash } from "@flowgate/base/password-hash";
import type { ImportOutcome } from "./report.ts";
import { memberOf, reasonOf, type Setting, textOf } from "./settings-file.ts";

/** The option `adminAuth` of Flowgate, as far as it can be imported. */
type AdminAuth = {
  readonly users: readonly {
    readonly username: string;
    readonly password: string;
    readonly permissions: Permissions;
  }[];
  readonly default?: { readonly permissions: Permissions };
  readonly tokenLifetimeSeconds?: number;
};

type Permissions = string | readonly string[];

/** Reports that a setting can't be imported, unless another outcome is given, and why. */
export type Report = (name: string, setting: Setting, reason: string, outcome?: ImportOutcome) => void;

/** The permissions of Node-RED, by their names here. Others do not exist here. */
const permissionNames: ReadonlyMap<string | undefined, string> = new Map(
  Object.entries({
    "*": "*",
    read: "read",
    "context.read": "context.read",
    "context.write": "context.write",
    "debug.read": "debug.read",
    "flows.read": "flows.read",
    "flows.write": "flows.write",
    "inject.write": "runtime.inject",
    "library.read": "library.read",
    "library.write": "library.write",
    "nodes.read": "modules.read",
    "nodes.write": "modules.write",
    "settings.read": "settings.read",
  }),
);

/** Why a password hash of Node-RED can't be imported; undefined if it can. */
export function passwordProblem(hash: string): string | undefined {
  return parsePasswordHash(hash) === undefined
    ? "it is not a bcrypt hash: create one with flowgate hash-password"
    : undefined;
}

/** Converts the users of Node-RED's setting `adminAuth`. Undefined: there are none. */
export function readAdminAuth(adminAuth: Setting, report: Report): AdminAuth | undefined {
  const type = memberOf(adminAuth, "type");
  if (adminAuth.kind !== "object" || (type !== undefined && textOf(type) !== "credentials")) {
    report("adminAuth", type ?? adminAuth, reasonOf(type ?? adminAuth, "only users with passwords can be imported"));
    return undefined;
  }
  const users = memberOf(adminAuth, "users");
  if (users === undefined || users.kind === "code") {
    report("adminAuth.users", users ?? adminAuth, reasonOf(users, "it is missing"));
    return undefined;
  }
  const items = users.kind === "list" ? users.items : [users];
  const imported = items.flatMap((user, index) => readUser(user, `adminAuth.users[${index}]`, report));
  if (imported.length === 0) {
    return undefined;
  }
  for (const name of ["authenticate", "tokens"]) {
    const code = memberOf(adminAuth, name);
    if (code !== undefined) {
      report(`adminAuth.${name}`, code, reasonOf(code, "Flowgate has no such option"));
    }
  }
  const defaults = memberOf(adminAuth, "default");
  const permissions =
    defaults && readPermissions(memberOf(defaults, "permissions"), defaults, "adminAuth.default.permissions", report);
  const lifetime = memberOf(adminAuth, "sessionExpiryTime");
  return {
    users: imported,
    ...(permissions !== undefined && { default: { permissions } }),
    ...(lifetime?.kind === "value" &&
      Number.isSafeInteger(lifetime.value) && { tokenLifetimeSeconds: lifetime.value as number }),
  };
}

function readUser(user: Setting, path: string, report: Report): AdminAuth["users"] {
  const name = memberOf(user, "username");
  const username = textOf(name);
  if (username === undefined || username === "") {
    report(`${path}.username`, name ?? user, reasonOf(name ?? user, "it is not text"));
    return [];
  }
  const hash = memberOf(user, "password");
  const password = textOf(hash);
  const problem = passwordProblem(password ?? "");
  if (password === undefined || problem !== undefined) {
    report(`${path}.password`, hash ?? user, reasonOf(hash ?? user, problem ?? "it is not text"));
    return [];
  }
  const permissions = readPermissions(memberOf(user, "permissions"), user, `${path}.permissions`, report);
  return permissions === undefined ? [] : [{ username, password, permissions }];
}

/** Returns undefined if there is no permission that Flowgate has too. */
function readPermissions(
  permissions: Setting | undefined,
  parent: Setting,
  path: string,
  report: Report,
): Permissions | undefined {
  const items = permissions?.kind === "list" ? permissions.items : permissions === undefined ? [] : [permissions];
  const names = items.flatMap((item) => {
    const original = textOf(item);
    const name = permissionNames.get(original);
    if (name === undefined) {
      report(path, item, reasonOf(item, `Flowgate has no permission ${JSON.stringify(original)}`));
      return [];
    }
    if (name !== original) {
      report(path, item, `${original} is ${name} here`, "changed");
    }
    return [name];
  });
  if (names.length === 0) {
    report(
      path,
      permissions ?? parent,
      "no permission is left: choose from *, read, and those of docs/configuration.md",
    );
    return undefined;
  }
  return names.length === 1 ? names[0] : names;
}
