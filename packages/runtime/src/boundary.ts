import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, lchownSync, lstatSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { walkDirectory } from "@flowgate/base/directories";
import { hasCode } from "@flowgate/base/error-code";
import { mountArguments } from "./boundary-mounts.ts";
import {
  type BoundaryLevel,
  type CompleteOptions,
  type Launcher,
  type RuntimeOptions,
  completeOptions,
} from "./options.ts";
import { programFiles } from "./sandbox.ts";
import { prepareUserDir } from "./user-dir.ts";

type Candidate = Omit<Launcher, "message">;

type BoundaryOptions = Pick<
  CompleteOptions,
  "isolate" | "user" | "modulesDir" | "codeCacheDir" | "limits" | "dir" | "hidden" | "entry" | "allow" | "port" | "log"
>;

/**
 * Finds the strongest boundary that this machine permits, by starting a program in each one that could be had. Throws if
 * `runtime.isolate` requires more.
 *
 * In each of them but the last, the kernel kills the process when the thread ends that has started it, which flows can't switch off.
 * Node starts processes on the thread that calls `spawn`.
 */
function findLauncher(options: BoundaryOptions): Launcher {
  const failures: string[] = [];
  for (const candidate of candidates(options)) {
    const failure = tryOut(candidate, options);
    if (failure === undefined) {
      const launcher = { ...candidate, message: describeLimits(candidate, options, failures) };
      assertSufficient(launcher, options);
      return launcher;
    }
    failures.push(failure.summary);
    const { command, level } = candidate;
    options.log({ level: "debug", message: `${command[0]} (${level}): ${failure.detail}` }, "runtime");
  }
  throw new Error("a program that needs no boundary can't be started");
}

/** Completes options with the launcher, unless they have one already. */
export function withLauncher(
  options: Omit<CompleteOptions, "launcher"> & Pick<RuntimeOptions, "launcher">,
): CompleteOptions {
  return { ...options, launcher: options.launcher ?? findLauncher(options) };
}

/** Finds the boundary of a runtime that is opened later with these options. Throws if `isolate` requires more than this machine permits. */
export function findBoundary(options: RuntimeOptions): Launcher {
  return withLauncher(completeOptions({ ...options, dir: prepareUserDir(options.dir) })).launcher;
}

function assertSufficient({ level, message }: Launcher, { isolate }: BoundaryOptions): void {
  if (isolate !== "required" || level === "namespaces" || level === "user") {
    return;
  }
  throw new Error(
    `runtime.isolate is "required", but flows can't be isolated here: ${message}. See "Isolation of flows" in docs/operations.md, or set it to "auto"`,
  );
}

function describeLimits({ level }: Candidate, { isolate }: BoundaryOptions, failures: string[]): string | undefined {
  if (level === "namespaces") {
    return undefined;
  }
  if (process.platform !== "linux") {
    return "it requires Linux";
  }
  if (isolate === "off") {
    return ["runtime.isolate is off", ...failures].join("; ");
  }
  return [...new Set(failures)].join("; ");
}

/** The strongest first. The last one needs nothing. */
function candidates(options: BoundaryOptions): Candidate[] {
  const bare: Candidate = { level: "none", user: undefined, command: [] };
  if (process.platform !== "linux") {
    return [bare];
  }
  const deathSignal = ["setpriv", "--pdeathsig", "KILL"];
  const signalled: Candidate = { ...bare, command: [...deathSignal, "--"] };
  if (options.isolate === "off") {
    return [signalled, bare];
  }

  const { user, port } = options;
  const isRoot = process.geteuid?.() === 0;
  const needsPort = port > 0 && port < firstOrdinaryPort();
  const kept = needsPort ? ",+net_bind_service" : "";
  const identity = [`--reuid=${user}`, `--regid=${user}`, "--clear-groups", "--no-new-privs"];
  const capabilities = [`--inh-caps=-all${kept}`, `--ambient-caps=-all${kept}`, `--bounding-set=-all${kept}`];
  // Each limit of processes counts those of the user, in the user namespace.
  const limited = ["--", ...limits(options), `--nproc=${options.limits.processes}`, "--"];
  const namespaces = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"];
  const mounts = [...mountArguments(options), "--chdir", options.dir];
  const capNames = [
    "CAP_DAC_OVERRIDE",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
    ...(needsPort ? ["CAP_NET_BIND_SERVICE"] : []),
  ];
  const added = ["--cap-drop", "ALL", ...capNames.flatMap((name) => ["--cap-add", name])];
  const setUser = ["setpriv", ...identity, ...capabilities];
  const ownUser = [...namespaces, "--unshare-user", "--disable-userns", "--cap-drop", "ALL", ...mounts];
  return [
    ...(isRoot
      ? [
          {
            level: "namespaces" as const,
            user,
            command: [...namespaces, ...added, ...mounts, "--", ...setUser, ...limited],
          },
        ]
      : []),
    // A process in a user namespace can't have privileges for ports of the machine.
    ...(needsPort
      ? []
      : [
          {
            level: "namespaces" as const,
            user: undefined,
            command: [...ownUser, "--", "setpriv", "--no-new-privs", ...limited],
          },
        ]),
    { level: "user", user, command: [...deathSignal, ...identity, ...capabilities, ...limited] },
    { ...signalled, level: "process", command: [...deathSignal, "--no-new-privs", "--", ...limits(options), "--"] },
    signalled,
    bare,
  ];
}

function limits({ limits: { openFiles, fileSizeMb } }: BoundaryOptions): string[] {
  // A higher one than that of the service needs a privilege.
  const [, hard] = /^Max open files\s+\S+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
  const files = Math.min(openFiles, Number(hard ?? openFiles));
  return ["prlimit", `--nofile=${files}`, `--fsize=${fileSizeMb * 1024 * 1024}`, "--core=0"];
}

/** Ports below it need a privilege. */
function firstOrdinaryPort(): number {
  try {
    return Number(readFileSync("/proc/sys/net/ipv4/ip_unprivileged_port_start", "latin1"));
  } catch {
    return 1024;
  }
}

/** Returns why a program can't be started so that it can use the runtime's directory and read the program of the child. */
function tryOut({ command, user, level }: Candidate, options: BoundaryOptions): Failure | undefined {
  const [program, ...args] = command;
  const { dir, modulesDir, codeCacheDir, hidden, entry, allow } = options;
  try {
    setOwner(dir, user ?? process.geteuid?.());
  } catch (error) {
    return { summary: "the service may not give files to another user", detail: (error as Error).message };
  }
  if (program === undefined) {
    return undefined;
  }
  // It is in a directory that is private, or whose other files are.
  if (user !== undefined && modulesDir !== undefined && existsSync(modulesDir)) {
    chmodSync(modulesDir, 0o755);
  }
  if (level === "user" && hidden.includes(dirname(dir))) {
    chmodSync(dirname(dir), 0o711);
  }
  if (level === "user" && codeCacheDir !== undefined && hidden.includes(dirname(dirname(codeCacheDir)))) {
    chmodSync(dirname(codeCacheDir), 0o711);
  }
  const readable = [
    process.execPath,
    ...programFiles(fileURLToPath(entry)),
    ...allow.fileSystemRead.flatMap((path) => [path, join(path, "package.json")]),
  ];
  const isIsolated = level === "namespaces" || level === "user";
  const checks = [
    ...(isIsolated ? readable : []).map((path) => ["-r", path]),
    ...(isIsolated ? allow.fileSystemWrite : []).map((path) => ["-w", path]),
  ].filter(([, path = ""]) => existsSync(path) && !path.startsWith("/proc"));
  const script =
    'cd "$1" && test -w . || exit 9; shift; while [ $# -gt 0 ]; do test "$1" "$2" || exit 9; shift 2; done';
  const { status, error, stderr } = spawnSync(
    program,
    [...args, "/bin/sh", "-c", script, "sh", dir, ...checks.flat()],
    { stdio: ["ignore", "ignore", "pipe"], encoding: "utf8", timeout: 5_000 },
  );
  if (status === 0) {
    return undefined;
  }
  const detail = error?.message ?? `exit code ${status}: ${stderr.trim()}`;
  if (hasCode(error, "ENOENT")) {
    return { summary: missing(program), detail };
  }
  if (status === 9) {
    return { summary: "another user may not read the program, runtime.dir or a path of runtime.allow", detail };
  }
  return { summary: program === "bwrap" ? refusals.bwrap : refusals.setpriv, detail };
}

/** `summary` does not contain paths of the machine. */
type Failure = { readonly summary: string; readonly detail: string };

const refusals = {
  bwrap: "the system does not let the service create namespaces",
  setpriv: "setpriv and prlimit of util-linux are missing or can't start programs as another user",
} as const;

function missing(program: string): string {
  return program === "bwrap"
    ? "bubblewrap (bwrap) is not installed"
    : "setpriv of util-linux is missing or can't start programs";
}

/** Gives the directory and all that it contains to a user, unless that has been done. */
function setOwner(dir: string, user: number | undefined): void {
  if (user === undefined || lstatSync(dir).uid === user) {
    return;
  }
  for (const entry of walkDirectory(dir)) {
    lchownSync(join(entry.parentPath, entry.name), user, user);
  }
  // The last one, so that an interrupted change is done again.
  lchownSync(realpathSync(dir), user, user);
}

/** Logs which boundary is in force, and why there is no stronger one. */
export function logBoundary({ launcher, log }: Pick<CompleteOptions, "launcher" | "log">): void {
  const { level, user, message, command } = launcher;
  const description = `${descriptions[level]}${user === undefined ? "" : ` as user ${user}`}`;
  if (level === "namespaces") {
    log({ level: "info", message: description }, "runtime");
    return;
  }
  const leftover = command.length > 0 ? "" : "; a hostile flow can keep running after the service is killed";
  log({ level: "warn", message: `${description}: ${message}${leftover}` }, "runtime");
}

const descriptions: Readonly<Record<BoundaryLevel, string>> = {
  namespaces: "the flow runtime is isolated by namespaces",
  user: "the flow runtime is isolated",
  process: "the flow runtime is limited, but not isolated from the service",
  none: "the flow runtime is not isolated by the operating system",
};
