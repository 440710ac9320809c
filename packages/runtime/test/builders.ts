import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { inject } from "vitest";
import type { CredentialSets, FlowNode } from "@flowgate/flows";
import type { LogEntry } from "../src/messages.ts";
import type { RuntimeOptions } from "../src/options.ts";
import type { Runtime, RuntimeState } from "../src/runtime.ts";
import { type Revision, createRevision } from "../src/revision.ts";
import { openRuntime } from "../src/supervisor.ts";
import { programFolder } from "../../../test/built-programs.ts";

export function revision(seq: number, flows: readonly FlowNode[], credentials?: CredentialSets): Revision {
  return { ...createRevision(seq, flows, credentials), rev: `r${seq}` };
}

export function credentials(sets: Record<string, Record<string, string>>): CredentialSets {
  return new Map(Object.entries(sets).map(([id, set]) => [id, new Map(Object.entries(set))]));
}

export type OpenedRuntime = Runtime & {
  readonly entries: readonly LogEntry[];
  /** The messages of the entries that are not marked as those of flows. */
  readonly ownMessages: readonly string[];
  readonly dataDir: string;
  /** Resolves with the nth log entry that matches, counted from 1; past entries included. */
  untilLogged(pattern: RegExp, nth?: number): Promise<LogEntry>;
  /** Resolves when the runtime is in that state. */
  untilState(state: RuntimeState): Promise<void>;
  /** Returns the response body of an HTTP-in node. */
  get(path: string): Promise<string>;
};

/** The program of a module in `fixtures`. */
export function fixture(name: string): URL {
  return pathToFileURL(join(programFolder, `fixtures/${name}.js`));
}

/** Opens a runtime in a new directory. Disposing removes the directory. */
export async function runtimeUnderTest(
  options: Partial<RuntimeOptions> = {},
  prepare?: (modulesDir: string, userDir: string) => Promise<void>,
): Promise<OpenedRuntime> {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-runtime-"));
  const userDir = join(dataDir, "runtime");
  const modulesDir = join(dataDir, "modules");
  await prepare?.(modulesDir, userDir);
  const entries: LogEntry[] = [];
  const ownMessages: string[] = [];
  const listeners = new Set<() => void>();
  const runtime = openRuntime({
    dir: userDir,
    modulesDir,
    processFile: join(dataDir, "runtime-process"),
    // Shared by all tests of the run. Fixtures have none.
    codeCacheDir: options.entry === undefined ? inject("runFolder") : undefined,
    log(entry, source) {
      entries.push(entry);
      if (source === "runtime") {
        ownMessages.push(entry.message);
      }
      for (const listener of listeners) {
        listener();
      }
    },
    ...options,
  });

  async function until<T>(find: () => T | undefined): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    const listener = () => {
      const found = find();
      if (found !== undefined) {
        resolve(found);
      }
    };
    listeners.add(listener);
    listener();
    const found = await promise;
    listeners.delete(listener);
    return found;
  }

  const dispose = runtime[Symbol.asyncDispose].bind(runtime);
  return Object.assign(runtime, {
    entries,
    ownMessages,
    dataDir,
    untilLogged: (pattern: RegExp, nth = 1) =>
      until(() => entries.filter(({ message }) => pattern.test(message))[nth - 1]),
    async untilState(state: RuntimeState) {
      await until(() => (runtime.status().state === state ? state : undefined));
    },
    async get(path: string) {
      const response = await fetch(`http://127.0.0.1:${runtime.status().httpPort}${path}`);
      return response.text();
    },
    async [Symbol.asyncDispose]() {
      await dispose();
      await rm(dataDir, { recursive: true, force: true });
    },
  });
}

/** Resolves when a process has exited that is not a child of this one. */
export async function untilExited(pid: number): Promise<true> {
  for (;;) {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
    // A zombie has exited, but its new parent has not reaped it yet.
    if (stat === undefined || / Z /.test(stat)) {
      return true;
    }
    await delay(10);
  }
}
