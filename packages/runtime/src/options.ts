import { resolve } from "node:path";
import { childProgram } from "./child-program.ts";
import type { ContextStore, NodeStorage } from "./storage.ts";
import { type Revision, createRevision } from "./revision.ts";
import type { FlowTraces } from "./flow-spans.ts";
import type { FlowStats } from "./flow-stats.ts";
import { type Disabled, noneDisabled, readDisabled } from "./modules/disabled.ts";
import type { Fence } from "./fence.ts";
import { readModules } from "./modules/spec.ts";
import { type ModuleSpec } from "@flowgate/base/module-names";
import { identifyFolder } from "./modules/folder.ts";
import { type Certificate, defaultFlowSettings, type FlowSettings } from "./flow-settings.ts";
import { keepLast, readCertainManifest } from "@flowgate/base/manifest";
import type { LogEntry, LogLevel } from "./messages.ts";
import type { ModuleLists } from "@flowgate/base/module-rules";
import type { NetworkAccess } from "./network-policy.ts";
import type { NodeObserver } from "./node-events.ts";
import { ProtectedPorts } from "./protected-ports.ts";
import { type Redaction, noRedaction } from "./redaction.ts";

/** Permissions of flows besides the network and their own `dir`. By default none. */
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

/** Resource limits of the runtime's processes, in total or for each. */
type ProcessLimits = {
  /** Processes and threads of their user in the user namespace. */
  readonly processes: number;
  /** File descriptors of one process. */
  readonly openFiles: number;
  /** The size of one file. */
  readonly fileSizeMb: number;
};

/**
 * `namespaces`: the runtime processes see their own files and processes only. `user`: they run as another user than the service.
 * `process`: they gain no privileges, and are limited. `none`: only Node's permission model restricts them.
 */
export type BoundaryLevel = "namespaces" | "user" | "process" | "none";

/** The restrictions that the operating system enforces on the runtime process and its children. */
export type Boundary = {
  readonly level: BoundaryLevel;
  /** Their user and group, if it is another one than that of the service. */
  readonly user: number | undefined;
  /** Why there is no stronger boundary; undefined if there is none. */
  readonly message: string | undefined;
};

export type Launcher = Boundary & {
  /** The command that starts a program, which is given by the arguments after it. */
  readonly command: readonly string[];
};

/** Starts programs without one. */
export const noBoundary: Launcher = { level: "none", user: undefined, message: undefined, command: [] };

type BackoffLimits = {
  /** Delay before the first restart in milliseconds; doubles with each further one within `safeMode.withinMs`, up to `maxBackoffMs`. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
};

/** After this many exits of processes with flows within `withinMs`, the next one starts in safe mode, without flows. */
type SafeModeLimits = { readonly exits: number; readonly withinMs: number };

/** True if the flows are to run, which can change. */
export interface DesiredState {
  current(): { readonly isStarted: boolean };
  /** Calls the listener after each change. Disposing ends the subscription. */
  onChange(listener: () => void): Disposable;
}

const alwaysStarted: DesiredState = {
  current: () => ({ isStarted: true }),
  onChange: () => ({ [Symbol.dispose]() {} }),
};

export type RuntimeOptions = Partial<FlowSettings> & {
  /** Returns the newest revision. Called at each start of the child. Defaults to the revision of the last deployment, at first one without flows. */
  readonly active?: () => Promise<Revision>;
  /** True if the flows are to run. Defaults to always true. */
  readonly desired?: DesiredState;
  /** The runtime's directory, where nodes can write files. No code is loaded from there. Created if missing. */
  readonly dir: string;
  /** The folder of added modules, which flows can read. Created if missing. Absent: no modules are added. */
  readonly modulesDir?: string | undefined;
  /**
   * The modules and sets that must not be loaded, including Node-RED's own. Called at each start of the child; must not throw after the
   * first call. Absent: the list in `modulesDir`.
   */
  readonly disabled?: () => Disabled;
  /** Which added modules may be loaded, as `externalModules.palette` of Node-RED has it. Absent: all. */
  readonly moduleLists?: ModuleLists;
  /** Which installed modules function nodes may load, in the same form, without versions. Absent: as `moduleLists`. */
  readonly functionLists?: (
    installed: readonly { readonly name: string; readonly version: string | undefined }[],
  ) => ModuleLists;
  /** Why modules of the active revision could not be installed here, and its sequence number. Absent: it is never known. */
  readonly modulesProblem?: () => { readonly seq: number; readonly message: string } | undefined;
  /** A folder that only the service can write, for compile caches of the flow runtime. Absent: it is compiled at each start. */
  readonly codeCacheDir?: string | undefined;
  /** The address of HTTP-in nodes. Defaults to 127.0.0.1. */
  readonly host?: string;
  /** Defaults to 0: a free one, which `status` reports. */
  readonly port?: number;
  /** The TLS options of that port. Absent: plaintext. */
  readonly certificates?:
    | { current(): Certificate; onChange(listener: (next: Certificate) => void): Disposable }
    | undefined;
  /** Receives the entries of this process, whose source is `runtime`, and the entries and output of the child. Defaults to ignoring them. */
  readonly log?: RuntimeLog;
  /** Redacts what flows write. Defaults to leaving it as it is. */
  readonly redaction?: Redaction;
  /** Receives what happens to nodes. Absent: nobody does. */
  readonly nodes?: NodeObserver | undefined;
  /** Sums up what flows do. Absent: nothing is measured. */
  readonly stats?: FlowStats | undefined;
  /** Measures each node, not only its tab. Defaults to false. */
  readonly measuresNodes?: boolean;
  /** Records the messages of flows. Absent: they are not traced. */
  readonly traces?: FlowTraces | undefined;
  /** The lowest severity of flows' entries that is logged. Defaults to `info`. */
  readonly logLevel?: LogLevel;
  /** Time limit of a deployment; longer for very large ones. Defaults to 30 s. */
  readonly deadlineMs?: number;
  /** Time limit for a child to become ready for deployments. Defaults to 60 s, for slow machines. */
  readonly readyDeadlineMs?: number;
  /** How long the child's event loop may be blocked. Defaults to 2 s. */
  readonly unresponsiveMs?: number;
  /** The delay of restarts. Defaults to 100 ms, and up to 10 s. */
  readonly restart?: Partial<BackoffLimits>;
  /** When restarts leave out the flows. Defaults to five exits within ten minutes. */
  readonly safeMode?: Partial<SafeModeLimits>;
  /** Time limit for a node to close. Defaults to 5 s. */
  readonly nodeCloseTimeoutMs?: number;
  /** Additional permissions of flows. Defaults to none. */
  readonly allow?: SandboxPermissions;
  /** When the operating system isolates the flows: where it can, always, or never. Defaults to `auto`. */
  readonly isolate?: "auto" | "required" | "off";
  /** The user and group of the flows where the service may change them. Defaults to 65531. */
  readonly user?: number;
  /** Defaults to 512 processes and threads, 65,536 open files, and files of 4 GiB. */
  readonly limits?: Partial<ProcessLimits>;
  /** Absolute paths of the service that flows must not see. Defaults to none besides its configuration. */
  readonly hidden?: readonly string[];
  /** Which deployments start in a new process, besides those after flows have blocked the event loop or flooded the log. Defaults to `full`. */
  readonly freshProcess?: "never" | "full" | "always";
  /** The addresses that flows may connect to. Defaults to all except `protectedPorts`. */
  readonly network?: NetworkAccess;
  /** Where flows keep context for the module `database`. Absent: nowhere. */
  readonly contextDatabase?: ContextStore | undefined;
  /** Where nodes store credentials and settings. Absent: nowhere. */
  readonly nodeStorage?: NodeStorage | undefined;
  /** The ports of the service. Defaults to none. */
  readonly protectedPorts?: ProtectedPorts;
  /** The maximum heap size of the child in MiB. Defaults to Node's own limit. */
  readonly maxOldSpaceMb?: number | undefined;
  /** Allows requests to the routes of nodes. Defaults to false. */
  readonly hasAdmin?: boolean;
  /** When the child may run. Defaults to always. */
  readonly fence?: Fence | undefined;
  /** Where the child's process is noted for `endLeftovers`. Flows must not have access to it. Absent: it is not noted. */
  readonly processFile?: string | undefined;
  /** Starts the child's program. Defaults to the strongest boundary that `isolate` permits, see boundary.ts. */
  readonly launcher?: Launcher;
  /** The program of the child, which implements the protocol of messages.ts. Defaults to `child/main.ts`. */
  readonly entry?: URL;
};

export type CompleteOptions = Required<Omit<RuntimeOptions, "allow" | "restart" | "safeMode" | "limits">> & {
  /** See `identifyFolder`; undefined: no modules are loaded. */
  readonly folderId: () => string | undefined;
  /** The modules in the folder. */
  readonly installed: () => readonly ModuleSpec[];
  readonly limits: ProcessLimits;
  readonly restart: BackoffLimits;
  readonly safeMode: SafeModeLimits;
  readonly allow: Required<SandboxPermissions>;
};

export type RuntimeLog = (entry: LogEntry, source: "runtime" | "flows") => void;

export const runtimeDefaults = {
  deadlineMs: 30_000,
  nodeCloseTimeoutMs: 5_000,
  freshProcess: "full",
  isolate: "auto",
  user: 65_531,
  limits: { processes: 512, openFiles: 65_536, fileSizeMb: 4_096 },
  restart: { backoffMs: 100, maxBackoffMs: 10_000 },
  safeMode: { exits: 5, withinMs: 600_000 },
  allow: { fileSystemRead: [], fileSystemWrite: [], childProcess: false, worker: false, nativeAddons: false, env: [] },
} as const;

/** All but the launcher, which `withLauncher` of boundary.ts finds by these options. */
export function completeOptions(
  options: RuntimeOptions,
): Omit<CompleteOptions, "launcher"> & Pick<RuntimeOptions, "launcher"> {
  const { http = defaultFlowSettings.http, modulesDir, moduleLists = { allow: ["*"], deny: [] } } = options;
  // The child has another working directory.
  const folders = http.static.map((folder) => ({ ...folder, path: resolve(folder.path) }));
  return {
    active: async () => createRevision(0, []),
    desired: alwaysStarted,
    log() {},
    host: "127.0.0.1",
    port: 0,
    logLevel: "info",
    readyDeadlineMs: 60_000,
    unresponsiveMs: 2_000,
    modulesDir: undefined,
    disabled: keepLast(() => (modulesDir === undefined ? noneDisabled : readDisabled(modulesDir))),
    moduleLists,
    functionLists: () => moduleLists,
    modulesProblem: () => undefined,
    codeCacheDir: undefined,
    maxOldSpaceMb: undefined,
    hasAdmin: false,
    fence: undefined,
    certificates: undefined,
    contextDatabase: undefined,
    nodeStorage: undefined,
    processFile: undefined,
    redaction: noRedaction,
    nodes: undefined,
    stats: undefined,
    measuresNodes: false,
    traces: undefined,
    entry: childProgram,
    network: { deny: [] },
    hidden: [],
    protectedPorts: new ProtectedPorts(),
    ...defaultFlowSettings,
    ...runtimeDefaults,
    ...options,
    folderId: keepLast(() => modulesDir && identifyFolder(modulesDir)),
    installed: keepLast(() => (modulesDir === undefined ? [] : readModules(modulesDir, readCertainManifest))),
    http: { ...http, static: folders },
    limits: { ...runtimeDefaults.limits, ...options.limits },
    restart: { ...runtimeDefaults.restart, ...options.restart },
    safeMode: { ...runtimeDefaults.safeMode, ...options.safeMode },
    allow: {
      ...runtimeDefaults.allow,
      ...options.allow,
      // The child has another working directory.
      fileSystemRead: [
        ...(options.modulesDir === undefined ? [] : [options.modulesDir]),
        ...(options.allow?.fileSystemRead ?? []).map((path) => resolve(path)),
        ...folders.map(({ path }) => path),
      ],
      fileSystemWrite: (options.allow?.fileSystemWrite ?? []).map((path) => resolve(path)),
    },
  };
}
