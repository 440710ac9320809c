import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BlockList, isIPv6 } from "node:net";

/** An strace that is attached to all threads of a process. Disposing detaches it. */
export type Strace = AsyncDisposable & {
  /** Detaches it, and returns the system calls that it has seen, in order. */
  end(): Promise<SystemCall[]>;
};

/** A line of the trace. A call that blocks has two: the first has no result, the second no arguments. */
export type SystemCall = {
  readonly thread: number;
  readonly name: string;
  readonly begins: boolean;
  readonly ends: boolean;
  readonly text: string;
};

/** Attaches to a running process with these arguments, which may inject faults. */
export async function attachStrace(pid: number, args: readonly string[]): Promise<Strace> {
  const output = join(await mkdtemp(join(tmpdir(), "strace-")), "trace");
  const child = spawn("strace", ["-f", "-y", "-o", output, ...args, "-p", String(pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = once(child, "exit");
  const attached = Promise.withResolvers<void>();
  let messages = "";
  child.stderr.on("data", (chunk: Buffer) => {
    messages += chunk.toString();
    // The last one to which it attaches.
    if (messages.includes(`Process ${pid} attached`)) {
      attached.resolve();
    }
  });
  void exited.then(() => attached.reject(new Error(`strace has ended: ${messages}`)));
  const detach = async (): Promise<void> => {
    child.kill("SIGINT");
    await exited;
  };
  await attached.promise;
  return {
    async end() {
      await detach();
      return parseTrace(await readFile(output, "latin1"));
    },
    [Symbol.asyncDispose]: detach,
  };
}

/** Parses the output of `strace -f -y -o`, with `-xx` or without. Signals and exits are left out. */
export function parseTrace(trace: string): SystemCall[] {
  return trace.split("\n").flatMap((line) => {
    const [, thread, resumed, name] = /^(\d+) +(<\.\.\. )?(\w+)(?:\(| resumed>)/.exec(line) ?? [];
    return name === undefined
      ? []
      : [
          {
            thread: Number(thread),
            name,
            begins: resumed === undefined,
            ends: !line.endsWith("<unfinished ...>"),
            text: line.replaceAll(
              /<((?:\\x[0-9a-f]{2})+)>/g,
              (_, hex: string) => `<${decodeHex(hex).toString("latin1")}>`,
            ),
          },
        ];
  });
}

/** Decodes a string of `strace -xx`, such as `\x41\x42`. */
export function decodeHex(text: string): Buffer {
  return Buffer.from(text.replaceAll("\\x", ""), "hex");
}

/** How often each thread makes each call, at most: the counters with which strace injects faults are per thread and call. */
export function countCalls(calls: readonly SystemCall[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [name, ofName] of Map.groupBy(
    calls.filter(({ begins }) => begins),
    (call) => call.name,
  )) {
    const byThread = Map.groupBy(ofName, ({ thread }) => thread);
    counts.set(name, Math.max(...[...byThread.values()].map(({ length }) => length)));
  }
  return counts;
}

export const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/** The system calls that name the address of another host. */
export const addressing = ["connect", "sendto", "sendmsg", "sendmmsg"];

/** Lists the addresses of the internet that the calls name, and that are not permitted. */
export function findForeignAddresses(calls: readonly SystemCall[], permitted: BlockList): string[] {
  const addresses = calls.flatMap(({ text }) => [...readAddresses(text)]);
  return [...new Set(addresses)].filter((address) => !permitted.check(address, isIPv6(address) ? "ipv6" : "ipv4"));
}

/** The addresses in a line of strace. */
export function readAddresses(text: string): string[] {
  const matches = text.matchAll(/inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"/g);
  return [...matches].map(([, ipv4, ipv6]) => ipv4 ?? ipv6 ?? "");
}
