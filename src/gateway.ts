import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { join } from "node:path";
import type { Logger } from "pino";
import { createAuthenticator } from "./auth/authenticator.ts";
import { permissionsOf } from "./auth/access.ts";
import { createGate } from "./auth/gate.ts";
import { decryptCredentials } from "./flows/encrypted.ts";
import type { Options } from "./options.ts";
import { openRuntime } from "./runtime/supervisor.ts";
import type { RuntimeOptions } from "./runtime/options.ts";
import type { Runtime, RuntimeStatus } from "./runtime/runtime.ts";
import { openServer } from "./server/app.ts";
import type { Readiness } from "./server/health.ts";
import { createLog } from "./server/log.ts";
import { authService } from "./services/auth.ts";
import { flowsService } from "./services/flows.ts";
import { createRoutes, services } from "./services/routes.ts";
import { settingsService } from "./services/settings.ts";
import { readKey } from "./store/key.ts";
import { lockDataDir } from "./store/sqlite/lock.ts";
import { openSqliteStore } from "./store/sqlite/open-store.ts";

/** A running service. Disposing finishes what is under way, stops the flows and closes the store. */
export interface Gateway extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  runtimeStatus(): RuntimeStatus;
}

/**
 * Opens the store, starts the runtime and listens, in this order; what was opened is closed again where
 * a later step fails. It resolves once it listens: the flows may still be starting (`GET /readyz` tells).
 */
export async function openGateway(options: Options, log: Logger = createLog(options.log)): Promise<Gateway> {
  await using stack = new AsyncDisposableStack();
  stack.use(lockDataDir(options.dataDir));
  const key = await readKey(options);
  const store = stack.use(await openSqliteStore({ path: join(options.dataDir, "flowgate.db"), key }));
  const runtime = stack.use(
    openRuntime({ ...runtimeOptions(options), active: () => store.flows.active(), log: createRuntimeLog(log) }),
  );
  const authenticator = createAuthenticator({
    adminAuth: options.adminAuth,
    tokens: store.tokens,
    permissions: permissionsOf(services),
  });
  const server = stack.use(
    await openServer({
      host: options.host,
      port: options.port,
      log,
      gate: createGate(authenticator, services),
      interceptors: [],
      routes: createRoutes({
        auth: authService(authenticator),
        flows: flowsService({
          store: store.flows,
          runtime,
          decrypt: (encrypted) => decryptCredentials(options.credentialSecret, encrypted),
          log,
        }),
        settings: settingsService(readVersion(), runtime),
      }),
      ready: createReadiness(runtime),
      docs: options.docs,
      limits: options.limits,
    }),
  );
  const opened = stack.move();
  return {
    url: server.url,
    runtimeStatus: () => runtime.status(),
    async [Symbol.asyncDispose]() {
      // Deployments that are committed stand: what becomes of them is for the next start, not for this one.
      runtime.release();
      await opened.disposeAsync();
    },
  };
}

function runtimeOptions({ runtime, log }: Options): Omit<RuntimeOptions, "active" | "log"> {
  const { dir, host, port, deadlineMs, nodeCloseTimeoutMs, allow, restart, maxOldSpaceMb } = runtime;
  return {
    userDir: dir,
    host,
    httpPort: port,
    logLevel: log.level === "silent" ? "fatal" : log.level,
    deadlineMs,
    nodeCloseTimeoutMs,
    allow,
    restartDelayMs: restart.backoffMs,
    maxRestartDelayMs: restart.maxBackoffMs,
    healthyAfterMs: restart.shortLifeMs,
    maxShortLives: restart.safeModeAfter,
    ...(maxOldSpaceMb === undefined ? {} : { maxOldSpaceMb }),
  };
}

/** What the flows say stands in the service's log, marked as theirs. */
function createRuntimeLog(log: Logger): RuntimeOptions["log"] {
  const flows = log.child({ source: "flows" });
  return ({ level, message, ...fields }) => flows[level](fields, message);
}

/**
 * Ready once the runtime has dealt with the flows that it found: runs them, or has said why it can't.
 * And from then on, for a service whose flows break must be reachable for the deployment that mends them.
 */
function createReadiness(runtime: Runtime): () => Readiness {
  let applied = false;
  return () => {
    const { state, message } = runtime.status();
    applied ||= state === "running" || state === "failed" || state === "safe";
    return { ready: applied, store: "open", runtime: state, ...(message === undefined ? {} : { message }) };
  };
}

/** This package's own version. */
function readVersion(): string {
  const path = findPackageJSON(import.meta.url);
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}
