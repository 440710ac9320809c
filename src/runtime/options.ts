import { extname } from "node:path";
import type { Revision } from "../store/store.ts";
import type { BackOffLimits } from "./back-off.ts";
import type { LogEntry, LogLevel } from "./messages.ts";

/** What flows may do besides the network and their own `dir`. Nothing of it by default. */
export type SandboxPermissions = {
  /** Paths; a directory stands for all that is in it. Who may write a Unix socket may connect to it. */
  readonly fileSystemRead?: readonly string[];
  readonly fileSystemWrite?: readonly string[];
  /** What a flow spawns is outside of all these limits. */
  readonly childProcess?: boolean;
  /** Threads are outside of some of these limits: they may signal other processes, and use Unix sockets. */
  readonly worker?: boolean;
  /** Native code is outside of all these limits too. */
  readonly nativeAddons?: boolean;
  /** Names of environment variables that are passed on. */
  readonly env?: readonly string[];
};

export type RuntimeOptions = {
  /** The newest revision; asked for at each start of the child. */
  readonly active: () => Promise<Revision>;
  /** The runtime's own directory, where its nodes may write and npm installs more of them. Created if missing. */
  readonly dir: string;
  /** Where HTTP-in nodes listen; port 0 is any free one, which `status` tells. */
  readonly host: string;
  readonly port: number;
  /** `runtime`: what is said of the runtime here, outside of its process; `flows`: what anyone may have said within. */
  readonly log: (entry: LogEntry, source: LogSource) => void;
  /** The least grave that is logged of the flows. */
  readonly logLevel?: LogLevel;
  /** How long a deployment may take: longer for very large ones. */
  readonly deadlineMs?: number;
  /** How long a child may take until it can receive flows. No flow runs yet, but machines can be slow. */
  readonly bootDeadlineMs?: number;
  /** How long the child's event loop may stand still. */
  readonly unresponsiveMs?: number;
  readonly restart?: Partial<BackOffLimits>;
  /** How long a node may take to close. */
  readonly nodeCloseTimeoutMs?: number;
  readonly allow?: SandboxPermissions;
  /** Limits the heap of the child. Absent: Node's own limit. */
  readonly maxOldSpaceMb?: number | undefined;
  /** The program that speaks the child's side of messages.ts. */
  readonly entry?: URL;
};

export type CompleteOptions = Required<Omit<RuntimeOptions, "maxOldSpaceMb" | "allow" | "restart">> & {
  readonly maxOldSpaceMb: number | undefined;
  readonly restart: BackOffLimits;
  readonly allow: Required<SandboxPermissions>;
};

type LogSource = "runtime" | "flows";

export const runtimeDefaults = {
  deadlineMs: 30_000,
  nodeCloseTimeoutMs: 5_000,
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
    bootDeadlineMs: 60_000,
    unresponsiveMs: 2_000,
    maxOldSpaceMb: undefined,
    // This file ends in .ts or, once built, in .js; so does its neighbour.
    entry: new URL(`./child${extname(import.meta.url)}`, import.meta.url),
    ...runtimeDefaults,
    ...options,
    restart: { ...runtimeDefaults.restart, ...options.restart },
    allow: { ...runtimeDefaults.allow, ...options.allow },
  };
}
