import { isIP } from "node:net";
import { isAbsolute, join, resolve } from "node:path";
import type * as z from "zod";
import type { Roles } from "../auth/permissions.ts";
import { isLoopback } from "@flowgate/base/addresses";
import { isWithin } from "@flowgate/base/directories";
import { adminAuth, identity } from "./access.ts";
import { keys } from "./keys.ts";
import { permissionsWith } from "./permissions.ts";
import { isWildcardPath } from "./values.ts";

/** All options with defaults and descriptions. A test compares them with docs/configuration.md. */
export const optionsSchema = keys.superRefine((options, context) => {
  for (const [path, message] of findConflicts(options)) {
    const steps = path.split(".").map((step) => (/^\d+$/.test(step) ? Number(step) : step));
    context.addIssue({ code: "custom", path: steps, message });
  }
});

export function optionsSchemaWith(roles: Roles): typeof optionsSchema {
  const permissions = permissionsWith(roles);
  return optionsSchema.safeExtend({
    adminAuth: adminAuth(permissions).optional(),
    identity: identity(permissions).optional(),
  });
}

type Conflict = readonly [path: string, message: string];

type Options = z.output<typeof keys>;

/** Finds combinations of valid options that conflict: the path of an option, and the problem. */
function* findConflicts(options: Options): Generator<Conflict> {
  const { host, port, runtime, metrics, nodeRed, adminAuth, identity, allowUnauthenticated } = options;
  const isOpen = adminAuth === undefined && identity === undefined;
  if (port !== 0 && port === runtime.port && overlap(host, runtime.host)) {
    yield ["runtime.port", "must be different from port, which the API uses"];
  }
  if (options.reflection === "authenticated" && isOpen) {
    yield [
      "reflection",
      "can't be authenticated, since neither adminAuth nor identity is set: set one of them, or use off or open",
    ];
  }
  if (isOpen && !allowUnauthenticated && !isLoopback(host)) {
    yield [
      "host",
      "would give every client on the network all permissions, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true",
    ];
  }
  if (isOpen && options.approvals.required.length > 0) {
    yield [
      "approvals.required",
      "requires users or workloads, since an author can't approve a proposal: set adminAuth or identity",
    ];
  }
  const used = [{ host, port }, runtime];
  if (metrics.port !== 0 && used.some((each) => each.port === metrics.port && overlap(each.host, metrics.host))) {
    yield ["metrics.port", "must be different from port and runtime.port; if absent, the metrics are served on port"];
  }
  if (nodeRed.port !== undefined && nodeRed.port !== 0) {
    const taken = [...used, { host: metrics.host, port: metrics.port }];
    if (taken.some((each) => each.port === nodeRed.port && overlap(each.host, host))) {
      yield ["nodeRed.port", "must be different from port, runtime.port and metrics.port"];
    }
  }
  const { journal } = options.live;
  if (options.webhooks.targets.length > 0 && (journal.size === 0 || journal.age === 0)) {
    yield [
      "webhooks.targets",
      "requires the journal, from which events are sent: set live.journal.size and live.journal.age",
    ];
  }
  if (/^postgres(ql)?:/.test(options.store ?? "") && options.credentialSecret === undefined) {
    yield [
      "credentialSecret",
      "must be set for a PostgreSQL store, since all replicas need the same key: set a long random secret",
    ];
  }
  const repeated = options.previousCredentialSecrets.findIndex((secret) => secret === options.credentialSecret);
  if (repeated !== -1) {
    yield [
      `previousCredentialSecrets.${repeated}`,
      "is the same as credentialSecret: remove it, or set a new credentialSecret",
    ];
  }
  const directories = { dataDir: options.dataDir, "runtime.dir": runtime.dir ?? options.dataDir };
  const [wildcard] = Object.entries(directories).find(([, path]) => isWildcardPath(path)) ?? [];
  if (wildcard !== undefined) {
    yield [wildcard, 'must be a path without "*", which would let flows out of their directory'];
  }
  yield* findIdentityConflicts(options);
  yield* findModuleConflicts(options);
  yield* findNodeRedConflicts(options);
  yield* findFlowHttpConflicts(options);
  yield* findContextConflicts(options);
  if (options.cors?.origins.includes("*") === true && isOpen && !allowUnauthenticated) {
    yield [
      "cors.origins",
      'would give every web page all permissions with "*", since adminAuth is not set: list the origins, set adminAuth, or set allowUnauthenticated: true',
    ];
  }
}

function overlap(first: string, second: string): boolean {
  const covers = (host: string, other: string): boolean =>
    host === other ||
    host === "::" ||
    (host === "0.0.0.0" && isIP(other) !== 6) ||
    (host === "localhost" && (other === "127.0.0.1" || other === "::1"));
  return covers(first, second) || covers(second, first);
}

function* findIdentityConflicts({ tls, trustedProxies, identity }: Options): Generator<Conflict> {
  const hasClientCertificates = tls !== undefined && tls.clientCertificate !== "none";
  if (hasClientCertificates && tls.clientCaFile === undefined) {
    yield ["tls.clientCaFile", "is missing: it is required to verify client certificates"];
  }
  if (tls?.clientCaFile !== undefined && !hasClientCertificates) {
    yield ["tls.clientCaFile", 'has no effect unless tls.clientCertificate is "request" or "require"'];
  }
  if (identity?.source === "certificate" && !hasClientCertificates) {
    yield ["identity.source", 'requires client certificates: set tls.clientCertificate to "request" or "require"'];
  }
  if (identity?.source === "forwarded" && trustedProxies.length === 0) {
    yield ["identity.source", "requires trustedProxies: other clients could forge the header"];
  }
}

/** Finds npm files that flows could write: they must not configure programs of the service. */
function* findModuleConflicts({ dataDir, runtime, modules: { npmrc, registry } }: Options): Generator<Conflict> {
  const paths = Object.entries({ npmrc, registry }).flatMap(([name, path]) =>
    path === undefined || (name === "registry" && !isAbsolute(path)) ? [] : [{ name, path }],
  );
  // The working directory, which paths can be relative to, may have been deleted.
  if (paths.length === 0) {
    return;
  }
  const writable = [runtime.dir ?? join(dataDir, "runtime"), ...runtime.allow.fileSystemWrite].map((path) =>
    resolve(path),
  );
  for (const { name, path } of paths) {
    if (writable.some((folder) => isWithin(folder, resolve(path)))) {
      yield [
        `modules.${name}`,
        "is writable by flows: choose a path outside of runtime.dir and runtime.allow.fileSystemWrite",
      ];
    }
  }
}

/** Why the listener can't be used with the other options; its port is compared with the other ports elsewhere. */
function* findNodeRedConflicts({ nodeRed, adminAuth, identity }: Options): Generator<Conflict> {
  const isOpen = adminAuth === undefined && identity === undefined;
  const isServed = nodeRed.port !== undefined || nodeRed.editor !== false;
  const { users = [], issuers = [], signIn } = adminAuth ?? {};
  if (nodeRed.url !== undefined && (nodeRed.editor === false || signIn?.url === undefined)) {
    yield ["nodeRed.url", "requires nodeRed.editor and adminAuth.signIn.url, by which people sign in at the editor"];
  }
  if (nodeRed.url !== undefined && nodeRed.url === signIn?.url) {
    yield ["nodeRed.url", "must be another origin than adminAuth.signIn.url: pages of the editor run code of modules"];
  }
  const isSignedInAt = nodeRed.url !== undefined && issuers.some((issuer) => issuer.signIn !== undefined);
  if (isServed && !isOpen && users.length === 0 && !isSignedInAt) {
    yield [
      "nodeRed.port",
      "requires adminAuth.users: Node-RED's tools log in with a name and a password. People can also sign in at the editor by adminAuth.issuers with a signIn, if nodeRed.url is set",
    ];
  }
}

/** Folders that would show secrets of the service, and to flows too. */
function* findFlowHttpConflicts(options: Options): Generator<Conflict> {
  const { dataDir, runtime } = options;
  const { http } = runtime;
  const secrets = findSecrets(options);
  if (http.static.length === 0) {
    return;
  }
  const dir = resolve(runtime.dir ?? join(dataDir, "runtime"));
  const data = resolve(dataDir);
  for (const [at, { path }] of http.static.entries()) {
    const folder = resolve(path);
    const showsData = isWithin(folder, data) || (isWithin(data, folder) && !isWithin(dir, folder));
    if (showsData || secrets.some((secret) => isWithin(folder, resolve(secret)))) {
      yield [
        `runtime.http.static.${at}.path`,
        "would show files of the service: choose a folder outside of dataDir without keys, or one in runtime.dir",
      ];
    }
  }
}

/** The files of the service with secrets that can be outside of its directory. */
function findSecrets({ store, tls, runtime, modules, adminAuth }: Options): string[] {
  const database = store?.startsWith("sqlite:") === true ? store.slice("sqlite:".length) : undefined;
  const ofIssuers = adminAuth?.issuers.map(({ signIn }) => signIn?.clientSecretFile) ?? [];
  const files = [database, tls?.keyFile, runtime.http.tls?.keyFile, modules.npmrc, ...ofIssuers];
  return files.filter((path) => path !== undefined);
}

/** Replicas that all run the flows would overwrite each other's values. */
function* findContextConflicts({ store, runtime }: Options): Generator<Conflict> {
  if (!/^postgres(ql)?:/.test(store ?? "") || runtime.mode !== "each") {
    return;
  }
  for (const [key, each] of Object.entries(runtime.contextStorage)) {
    if (typeof each !== "string" && each.module === "database") {
      yield [
        `runtime.contextStorage.${key}`,
        "requires runtime.mode: one, since several replicas would overwrite each other's values",
      ];
    }
  }
}
