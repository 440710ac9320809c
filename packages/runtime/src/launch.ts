import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Initialize, LoadModules } from "./messages.ts";
import type { ModuleLists } from "@flowgate/base/module-rules";
import type { CompleteOptions } from "./options.ts";
import { sandboxEnvironment, sandboxFlags } from "./sandbox.ts";

/** A folder of Node's compile cache. Only a process that runs no flows may write it. */
export type CompileCache = { readonly folder: string; readonly isWritten: boolean };

/** Starts a process of the flow runtime with the rights that flows have. */
export function spawnProgram(
  { entry, dir, allow, maxOldSpaceMb, fence, launcher, hasAdmin }: CompleteOptions,
  cache: CompileCache | undefined,
): ChildProcess {
  const flags = [
    ...sandboxFlags(entry, dir, allow),
    ...(maxOldSpaceMb === undefined ? [] : [`--max-old-space-size=${maxOldSpaceMb}`]),
    ...(cache === undefined ? [] : [`--allow-fs-read=${cache.folder}`]),
    ...(cache?.isWritten === true ? [`--allow-fs-write=${cache.folder}`] : []),
  ];
  const [program, ...args] = [...launcher.command, process.execPath, ...flags, fileURLToPath(entry)];
  return spawn(program, args, {
    cwd: dir,
    env: {
      ...sandboxEnvironment(allow),
      ...(cache !== undefined && {
        NODE_COMPILE_CACHE: cache.folder,
        NODE_COMPILE_CACHE_READONLY: cache.isWritten ? "0" : "1",
      }),
      ...(fence !== undefined && { FLOWGATE_FENCING_TOKEN: String(fence.token) }),
    },
    // As messageFd, watchFd and adminFd number them.
    stdio: ["ignore", "pipe", "pipe", "pipe", "pipe", ...(hasAdmin ? ["pipe" as const] : [])],
    // Starts a process group: Ctrl-C in a terminal reaches the parent only, and processes that flows spawn can be killed.
    detached: true,
  });
}

/** Without those by the name of Node-RED, which would be loaded in place of its own nodes. */
function withoutCore({ allow, deny }: ModuleLists): ModuleLists {
  return { allow, deny: ["node-red", ...deny] };
}

/** The disabled modules come first, since the first entry that names a module decides. */
function withDisabled({ allow, deny }: ModuleLists, disabled: readonly string[]): ModuleLists {
  return { allow, deny: [...disabled, ...deny] };
}

/** The changes that a process needs to load modules added, enabled or disabled since its start. */
export function loadModulesMessage(
  modulesDir: string,
  {
    moduleLists,
    functionLists,
    disabled,
    installed,
  }: Pick<CompleteOptions, "moduleLists" | "functionLists" | "disabled" | "installed">,
): LoadModules {
  const { modules, sets } = disabled();
  return {
    kind: "load-modules",
    modulesDir,
    moduleLists: withoutCore(withDisabled(moduleLists, modules)),
    functionLists: withDisabled(functionLists(installed()), modules),
    disabledSets: sets,
  };
}

/** The first message to the process: all that it must know before it loads the flow runtime. */
export function initializeMessage(options: CompleteOptions): Initialize {
  const {
    dir,
    host,
    port,
    modulesDir,
    moduleLists,
    functionLists,
    installed,
    nodeCloseTimeoutMs,
    contextStorage,
    http,
    globalContext,
    nodeSettings,
    logLevel,
    allow,
    network,
    fence,
    launcher,
    stats,
    measuresNodes,
    traces,
    hasAdmin,
  } = options;
  const disabled = options.disabled();
  return {
    kind: "initialize",
    // A process in namespaces ends with the first one there, which ends with this one.
    ...(launcher.level !== "namespaces" && { parentPid: process.pid }),
    userDir: dir,
    ...(modulesDir !== undefined && {
      modulesDir,
      moduleLists: withoutCore(withDisabled(moduleLists, disabled.modules)),
      functionLists: withDisabled(functionLists(installed()), disabled.modules),
    }),
    ...(disabled.sets.length > 0 && { disabledSets: disabled.sets }),
    nodeCloseTimeoutMs,
    settings: { contextStorage, http, globalContext, nodeSettings: { uiHost: host, uiPort: port, ...nodeSettings } },
    logLevel,
    worker: allow.worker,
    network,
    ...(stats !== undefined && { measures: measuresNodes ? "nodes" : "tabs" }),
    ...(traces !== undefined && { traceRatio: traces.sampleRatio }),
    ...(hasAdmin && { hasAdmin }),
    ...(fence !== undefined && { deadline: fence.deadline() }),
  };
}
