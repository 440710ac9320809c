import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, rm, stat, writeFile } from "node:fs/promises";
import { getCompileCacheDir } from "node:module";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";
import { text } from "node:stream/consumers";

/** Options of npm besides those that are always given. */
export type NpmOptions = {
  /** The URL of a registry. Undefined: that of `npmrc`, or npm's own. */
  readonly registry?: string | undefined;
  /** A configuration file with registries, tokens, proxies and certificates. Undefined: none is read. */
  readonly npmrc?: string | undefined;
  /** True if packages may require others from git repositories and URLs. */
  readonly allowsGit?: boolean | undefined;
  /** True if the registry is on this machine: then proxies are not used, and its URLs are not kept in the lockfile. */
  readonly isLocal?: boolean | undefined;
  /** Where npm keeps what it downloads. */
  readonly cacheDir: string;
  /** Ends npm, with all that it has started. Without a signal, npm ends with this process at Ctrl-C. */
  readonly signal?: AbortSignal | undefined;
  /** How long npm may take, all runs together. */
  readonly timeoutMs?: number | undefined;
  /** How much the folder may contain in which npm works. */
  readonly maxBytes?: number | undefined;
};

/** Why npm could not do what it was started for. */
export class NpmError extends Error {
  /**
   * `missing`: there is no npm; `timeout`, `size`: it was ended at a limit; `aborted`: by the signal; `git`: a package comes from a git
   * repository, which is not allowed; otherwise the error code of npm, such as E404, or an empty text.
   */
  readonly code: string;
  /** The output of npm. May contain paths and URLs. */
  readonly output: string;

  constructor(code: string, output: string) {
    super(`npm failed (${code})`);
    this.name = "NpmError";
    this.code = code;
    this.output = output;
  }
}

/** Runs npm with these arguments. Throws an NpmError. */
export type Npm = (args: readonly string[]) => Promise<void>;

/** The only variables that npm gets. */
const passedVariables = ["LANG", "LC_ALL", "TZ", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"];
const proxyVariables = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];

const watchIntervalMs = 1_000;

/**
 * Prepares npm for the folder `tree`, with the files that it needs besides in `work`, which contains both. It reads no configuration but
 * what the options name: neither that of the environment and the home directory, nor a file that flows could have written.
 */
export function createNpm(work: string, tree: string, options: NpmOptions): Npm {
  const { timeoutMs } = options;
  const endMs = timeoutMs && performance.now() + timeoutMs;
  return (args) => runNpm(args, work, tree, { ...options, timeoutMs: endMs && Math.max(endMs - performance.now(), 1) });
}

async function runNpm(args: readonly string[], work: string, tree: string, options: NpmOptions): Promise<void> {
  const [command = "", ...rest] = args;
  const noGit = join(work, "no-git");
  const { timeoutMs, maxBytes, cacheDir } = options;
  if (maxBytes !== undefined && (await measure(cacheDir, maxBytes)) > maxBytes) {
    await rm(cacheDir, { recursive: true, force: true, maxRetries: 3 });
  }
  await writeFile(join(work, "empty-npmrc"), "");
  const { signal } = options;
  const isAborted = (): boolean => signal?.aborted === true;
  if (isAborted()) {
    throw new NpmError("aborted", "");
  }
  const child = spawn("npm", [command, ...optionsOf(work, tree, noGit, rest, options), ...rest], {
    cwd: tree,
    env: { ...environmentOf(work, options), ...(runsScripts(rest) ? {} : compileCache()) },
    stdio: ["ignore", "pipe", "pipe"],
    // A process group, so that the scripts of packages end with it.
    detached: signal !== undefined,
  });
  const limits = new AbortController();
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => limits.abort("timeout"), timeoutMs);
  const watch = maxBytes === undefined ? undefined : watchSize([work, cacheDir], maxBytes, () => limits.abort("size"));
  const kill = (): void => endGroup(child.pid);
  limits.signal.addEventListener("abort", kill);
  signal?.addEventListener("abort", kill);
  try {
    const output = Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = (await once(child, "close").catch(explainMissing)) as [number | null];
    if (code === 0) {
      return;
    }
    const [stdout, stderr] = await output;
    const printed = stderr || stdout;
    if (isAborted()) {
      throw new NpmError("aborted", printed);
    }
    if (limits.signal.aborted) {
      throw new NpmError(limits.signal.reason as string, printed);
    }
    throw new NpmError(stderr.includes(noGit) ? "git" : readCode(printed), printed);
  } finally {
    clearTimeout(timer);
    clearInterval(watch);
    signal?.removeEventListener("abort", kill);
  }
}

function optionsOf(
  work: string,
  tree: string,
  noGit: string,
  rest: readonly string[],
  { npmrc, cacheDir, allowsGit, isLocal }: NpmOptions,
): string[] {
  return [
    `--prefix=${tree}`,
    `--userconfig=${npmrc === undefined ? join(work, "no-npmrc") : resolve(npmrc)}`,
    `--globalconfig=${join(work, "empty-npmrc")}`,
    `--cache=${cacheDir}`,
    ...(allowsGit === true ? [] : [`--git=${noGit}`]),
    ...(isLocal === true ? ["--omit-lockfile-registry-resolved"] : []),
    ...(runsScripts(rest) ? [] : ["--ignore-scripts"]),
    "--omit=dev",
    "--package-lock",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--logs-max=0",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--loglevel=error",
  ];
}

function environmentOf(work: string, { registry, isLocal = false }: NpmOptions): Record<string, string> {
  const names = isLocal ? passedVariables : [...passedVariables, ...proxyVariables];
  const passed = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const path = (process.env["PATH"] ?? "").split(delimiter).filter(isAbsolute).join(delimiter);
  return {
    PATH: path,
    HOME: work,
    TMPDIR: work,
    // Unlike arguments, other users of the machine can't read it.
    ...(registry !== undefined && { npm_config_registry: registry }),
    ...Object.fromEntries(passed),
  };
}

function runsScripts(args: readonly string[]): boolean {
  return args.includes("--no-ignore-scripts");
}

/**
 * That of this process, where npm finds its code compiled: a cache in its temporary folder would be written at each run, and removed. Not
 * for scripts of packages, since this process runs code from it.
 */
function compileCache(): Record<string, string> {
  const folder = getCompileCacheDir();
  // Node adds a folder for its version.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

function explainMissing(error: NodeJS.ErrnoException): never {
  throw error.code === "ENOENT" ? new NpmError("missing", "") : error;
}

/** The code that npm prints with an error. */
function readCode(output: string): string {
  return /^npm (?:error|ERR!) code (\w+)$/m.exec(output)?.[1] ?? "";
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) {
      process.kill(-pid, "SIGKILL");
    }
  } catch {
    // It has ended.
  }
}

/** Calls `onExceeded` once when one of the folders has become larger. */
function watchSize(folders: readonly string[], maxBytes: number, onExceeded: () => void): NodeJS.Timeout {
  let isMeasuring = false;
  const look = async (): Promise<void> => {
    if (isMeasuring) {
      return;
    }
    isMeasuring = true;
    for (const folder of folders) {
      if ((await measure(folder, maxBytes)) > maxBytes) {
        clearInterval(timer);
        onExceeded();
        break;
      }
    }
    isMeasuring = false;
  };
  const timer = setInterval(() => void look(), watchIntervalMs);
  return timer;
}

const blockBytes = 4_096;

/** How much a folder takes on the disk, about; not more than is needed to know that it is too much. */
export async function measure(folder: string, maxBytes: number): Promise<number> {
  let bytes = 0;
  const folders = [folder];
  for (const path of folders) {
    // Others may be removed meanwhile.
    const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
    folders.push(...entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(path, name)));
    const files = entries.filter((entry) => entry.isFile());
    const sizes = await Promise.all(
      files.map(({ name }) =>
        stat(join(path, name)).then(
          ({ size }) => size,
          () => 0,
        ),
      ),
    );
    bytes += sizes.reduce((sum, size) => sum + Math.max(size, blockBytes), blockBytes);
    if (bytes > maxBytes) {
      break;
    }
  }
  return bytes;
}
