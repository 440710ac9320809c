import { resolve } from "node:path";
import { programFile } from "../program-file.ts";
import type { Revision } from "../store/revision.ts";
import type { BackoffLimits } from "./backoff.ts";
import { findDeathSignalCommand } from "./death-signal.ts";
import type { Fence } from "./fence.ts";
import type { LogEntry, LogLevel } from "./messages.ts";
import type { NetworkAccess } from "./network-policy.ts";
import { type ProtectedPorts, createProtectedPorts } from "./protected-ports.ts";

/** What flows may do besides using the network and their own `dir`. By default nothing. */
export type SandboxPermissions = {
  /** Paths of files, or of directories with all that they contain. */
  readonly fileSystemRead?: readonly string[];
  /** As `fileSystemRead`. The path of a Unix socket permits connecting to it. */
  readonly fileSystemWrite?: readonly string[];
  /** Spawned processes are subject to none of these limits. */
  readonly childProcess?: boolean;
  /** Threads are subject to some of these limits only: they can signal other processes and use Unix sockets. */
  readonly worker?: boolean;
  /** Native code is subject to none of these limits. */
  readonly nativeAddons?: boolean;
  /** Names of environment variables that are passed to the flows. */
  readonly env?: readonly string[];
};

export type RuntimeOptions = {
  /** Returns the newest revision. Called at each start of the child. */
  readonly active: () => Promise<Revision>;
  /** The runtime's directory, where nodes can write files. No code is loaded from there. Created if missing. */
  readonly dir: string;
  /** The folder of added modules, which flows can read. Created if missing. Absent: no modules are added. */
  readonly modulesDir?: string | undefined;
  /** The address of HTTP-in nodes. Port 0 selects a free one, which `status` reports. */
  readonly host: string;
  readonly port: number;
  /** `source` is `runtime` for entries of this process, and `flows` for entries and output of the child. */
  readonly log: (entry: LogEntry, source: LogSource) => void;
  /** The lowest severity of flows' entries that is logged. Defaults to `info`. */
  readonly logLevel?: LogLevel;
  /** Time limit of a deployment; longer for very large ones. Defaults to 30 s. */
  readonly deadlineMs?: number;
  /** Time limit for a child to become ready for deployments. Defaults to 60 s, for slow machines. */
  readonly readyDeadlineMs?: number;
  /** How long the child's event loop may be blocked. Defaults to 2 s. */
  readonly unresponsiveMs?: number;
  readonly restart?: Partial<BackoffLimits>;
  /** Time limit for a node to close. Defaults to 5 s. */
  readonly nodeCloseTimeoutMs?: number;
  readonly allow?: SandboxPermissions;
  /** Which deployments start in a new process, besides those that `Runtime.distrust` describes. Defaults to `full`. */
  readonly freshProcess?: "never" | "full" | "always";
  /** What flows may connect to. Defaults to everything except `protectedPorts`. */
  readonly network?: NetworkAccess;
  /** The ports of the service. Defaults to none. */
  readonly protectedPorts?: ProtectedPorts;
  /** The maximum heap size of the child in MiB. Defaults to Node's own limit. */
  readonly maxOldSpaceMb?: number | undefined;
  /** When the child may run. Defaults to always. */
  readonly fence?: Fence | undefined;
  /** Where the child's process is noted for `endLeftovers`. Flows must not have access to it. Absent: it is not noted. */
  readonly processFile?: string | undefined;
  /** The program of the child, which implements the protocol of messages.ts. Defaults to `child/main.ts`. */
  readonly entry?: URL;
};

export type CompleteOptions = Required<
  Omit<RuntimeOptions, "modulesDir" | "maxOldSpaceMb" | "fence" | "processFile" | "allow" | "restart">
> & {
  readonly modulesDir: string | undefined;
  readonly maxOldSpaceMb: number | undefined;
  readonly fence: Fence | undefined;
  readonly processFile: string | undefined;
  /** The command that starts the child's program, see death-signal.ts. */
  readonly launcher: readonly string[];
  readonly restart: BackoffLimits;
  readonly allow: Required<SandboxPermissions>;
};

type LogSource = "runtime" | "flows";

export const runtimeDefaults = {
  deadlineMs: 30_000,
  nodeCloseTimeoutMs: 5_000,
  freshProcess: "full",
  restart: { backoffMs: 100, maxBackoffMs: 10_000, shortLifeMs: 30_000, safeModeAfter: 5 },
  allow: {
    fileSystemRead: [],
    fileSystemWrite: [],
    childProcess: false,
    worker: false,
    nativeAddons: false,
    env: [],
  },
} as const;

export function completeOptions(options: RuntimeOptions): CompleteOptions {
  return {
    logLevel: "info",
    readyDeadlineMs: 60_000,
    unresponsiveMs: 2_000,
    modulesDir: undefined,
    maxOldSpaceMb: undefined,
    fence: undefined,
    processFile: undefined,
    launcher: findDeathSignalCommand(),
    entry: programFile("runtime/child/main"),
    network: { deny: [] },
    protectedPorts: createProtectedPorts(),
    ...runtimeDefaults,
    ...options,
    restart: { ...runtimeDefaults.restart, ...options.restart },
    allow: {
      ...runtimeDefaults.allow,
      ...options.allow,
      // The child has another working directory.
      fileSystemRead: [
        ...(options.modulesDir === undefined ? [] : [options.modulesDir]),
        ...(options.allow?.fileSystemRead ?? []).map((path) => resolve(path)),
      ],
      fileSystemWrite: (options.allow?.fileSystemWrite ?? []).map((path) => resolve(path)),
    },
  };
}
