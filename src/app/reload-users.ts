import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import type { AdminAuth, User } from "../auth/accounts.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { type Options, OptionsError } from "../options/parse.ts";
import { systemOrigin } from "../store/audit-store.ts";

export type UserReload = {
  /** The users and defaults in force. */
  adminAuth(): AdminAuth | undefined;
  /** The secrets of credentials in force. */
  secrets(): Secrets;
  /**
   * Replaces `adminAuth` and the credential secrets by the options that `read` resolves with, and logs the other
   * changed options, which need a restart. If `read` rejects, the message is logged and nothing changes.
   */
  reload(read: () => Promise<Options>): Promise<void>;
};

/** The secrets of credentials. */
type Secrets = Pick<Options, "credentialSecret" | "previousCredentialSecrets">;

export type UserReloadOptions = {
  /** The options that the service was started with. */
  readonly options: Options;
  /** If it rejects, the previous users stay in force. */
  readonly replace: (adminAuth: AdminAuth, roles: Options["roles"]) => Promise<void>;
  /** If it rejects, the previous secrets stay in force. */
  readonly replaceSecrets: (secrets: Secrets) => Promise<void>;
  readonly audit: Pick<AuditRecorder, "write">;
  /** Called when changed users are in force, or were rejected. */
  readonly onReload: (action: "reloaded" | "rejected", detail: string) => void;
  readonly log: Logger;
};

export function createUserReload(userReload: UserReloadOptions): UserReload {
  const { options, replace, replaceSecrets, audit, onReload, log } = userReload;
  let { adminAuth, roles } = options;
  let secrets = secretsOf(options);
  let queue: Promise<void> = Promise.resolve();

  async function apply(next: Options): Promise<void> {
    // The server was set up for clients with or without tokens.
    const isFixed = adminAuth === undefined || next.adminAuth === undefined;
    const unchanged = {
      ...secretsOf(options),
      ...(!isFixed && { adminAuth: { ...options.adminAuth, signIn: next.adminAuth?.signIn }, roles: options.roles }),
    };
    const changed = changedPaths(options, { ...next, ...unchanged });
    if (changed.length > 0) {
      log.warn({ options: changed }, "these options have changed, but are read at start only: restart the service");
    }
    const nextSecrets = secretsOf(next);
    if (!isDeepStrictEqual(nextSecrets, secrets)) {
      await replaceSecrets(nextSecrets);
      secrets = nextSecrets;
      log.info(
        "changed secrets of credentials are in force: flowgate credentials rotate encrypts everything with the new one",
      );
    }
    const nextAuth = next.adminAuth && withSignIn(next.adminAuth, adminAuth?.signIn);
    const isSame = isDeepStrictEqual([adminAuth, roles], [nextAuth, next.roles]);
    if (adminAuth === undefined || nextAuth === undefined || isSame) {
      log.info("the configuration was read again: the users in force are unchanged");
      return;
    }
    const difference = describeDifference({ ...adminAuth, roles }, { ...nextAuth, roles: next.roles });
    await replace(nextAuth, next.roles);
    [adminAuth, roles] = [nextAuth, next.roles];
    log.info({ difference }, "changed users are in force");
    const detail = difference.slice(0, maxDetailChars);
    audit.write({ kind: "users_reloaded", origin: systemOrigin, detail });
    onReload("reloaded", detail);
  }

  async function reload(read: () => Promise<Options>): Promise<void> {
    try {
      await apply(await read());
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.error({ reason }, "the changed configuration can't be used: the previous users stay in force");
      const detail = withoutPath(error).slice(0, maxDetailChars);
      audit.write({ kind: "users_rejected", origin: systemOrigin, detail });
      onReload("rejected", detail);
    }
  }

  return {
    adminAuth: () => adminAuth,
    secrets: () => secrets,
    // One after another, so that the last one read is in force.
    reload: (read) => (queue = queue.then(() => reload(read))),
  };
}

function secretsOf({ credentialSecret, previousCredentialSecrets }: Options): Secrets {
  return { credentialSecret, previousCredentialSecrets };
}

/** Browsers know the service by the URL that it was started with. */
function withSignIn<Auth extends AdminAuth>(adminAuth: Auth, signIn: Auth["signIn"]) {
  const { signIn: _signIn, ...rest } = adminAuth;
  return signIn === undefined ? rest : { ...rest, signIn };
}

const maxDetailChars = 1000;

/** Removes the path from an error message: readers of the audit log need not know where the service keeps its files. */
function withoutPath(error: unknown): string {
  const problems = [error, error instanceof Error ? error.cause : undefined].find(
    (each) => each instanceof OptionsError,
  );
  return problems?.message ?? "the configuration can't be read: the log has the reason";
}

/** The paths of the values that differ, such as `limits.inFlight`. Lists are compared as a whole. */
function changedPaths(before: object, after: object, prefix = ""): string[] {
  const [old, next] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  return [...new Set([...old.keys(), ...next.keys()])].flatMap((key) => {
    const [from, to]: unknown[] = [old.get(key), next.get(key)];
    if (isDeepStrictEqual(from, to)) {
      return [];
    }
    return isRecord(from) && isRecord(to) ? changedPaths(from, to, `${prefix}${key}.`) : [`${prefix}${key}`];
  });
}

function isRecord(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

type Access = AdminAuth & Pick<Options, "roles">;

/** Names the users that were added, removed or changed, other keys of `adminAuth`, and roles. */
function describeDifference(before: Access, after: Access): string {
  const { users: oldUsers, ...oldRest } = before;
  const { users: newUsers, ...newRest } = after;
  const [old, next] = [byName(oldUsers), byName(newUsers)];
  const changed = newUsers.filter((user) => old.has(user.username) && !isDeepStrictEqual(old.get(user.username), user));
  const parts = {
    added: newUsers.filter(({ username }) => !old.has(username)).map(({ username }) => username),
    removed: oldUsers.filter(({ username }) => !next.has(username)).map(({ username }) => username),
    changed: [...changed.map(({ username }) => username), ...changedPaths(oldRest, newRest)],
  };
  return Object.entries(parts)
    .flatMap(([verb, names]) => (names.length === 0 ? [] : [`${verb}: ${names.join(", ")}`]))
    .join("; ");
}

function byName(users: readonly User[]): ReadonlyMap<string, User> {
  return new Map(users.map((user) => [user.username, user]));
}
