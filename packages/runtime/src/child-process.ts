import type { ChildProcess } from "node:child_process";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { AdminChannel } from "./admin-channel.ts";
import { type ChildChannel, createLineReader, openChildChannel, readThrottled } from "./channel.ts";
import { type Fault, parseFault } from "./fault.ts";
import { formatDeadline } from "./fence.ts";
import { logAsFlows } from "./flow-log.ts";
import type { Certificate } from "./flow-settings.ts";
import { type CompileCache, initializeMessage, spawnProgram } from "./launch.ts";
import { findProgram, killGroup, signalOf } from "./launched-program.ts";
import { noteProcess } from "./leftover.ts";
import { type FromChild, type StoredSettings, type ToChild, adminFd, messageFd, watchFd } from "./messages.ts";
import { type ReadText, createReadText } from "./node-events.ts";
import type { CompleteOptions } from "./options.ts";
import { LogBudget, type OnLine, maxLineChars, readOutput } from "./output.ts";
import type { RuntimeStateReason } from "./runtime.ts";

/** How a process has ended. */
export type ProcessExit = {
  readonly cause: string;
  readonly reason: Extract<RuntimeStateReason, "blocked" | "out_of_memory" | "crashed" | "killed"> | undefined;
  /** The node that has ended it, or was active last. */
  readonly fault?: Fault | undefined;
};

export type ProcessEvents = {
  readonly onMessage: (message: FromChild) => void;
  /** Called with the reason for each line and message that is too many. */
  readonly onFlood: (reason: string) => void;
  /** Called once, also if the process could not be started. */
  readonly onExit: (exit: ProcessExit) => void;
};

/** Heartbeats, reports and replies to requests one after another are far fewer. Log entries have their own budget. */
const messageLimits = { lines: 2_000, windowMs: 5_000 };

/** The size limit of a report of the watchdog about a node. */
const maxFaultBytes = 4_096;

/** A process of the flow runtime, which it starts and initializes. Its output is written to the log. */
export class RuntimeProcess {
  readonly #options: CompleteOptions;
  readonly #events: ProcessEvents;
  readonly #readText: ReadText;
  /** Undefined if it could not be started. */
  readonly #child: ChildProcess | undefined;
  #channel: ChildChannel | undefined;
  #admin: AdminChannel | undefined;
  readonly #messageBudget = new LogBudget(ignore, messageLimits);
  readonly #subscriptions = new DisposableStack();
  #isChannelInvalid = false;
  #isOutOfMemory = false;
  #hasExited = false;
  #program: number | undefined;
  /** As its watchdog has reported it last. */
  #fault: Fault | undefined;

  /** `settings` are those that modules have stored. */
  constructor(
    options: CompleteOptions,
    settings: ReadonlyMap<string, string>,
    events: ProcessEvents,
    cache: CompileCache | undefined,
  ) {
    this.#options = options;
    this.#events = events;
    this.#readText = createReadText(options.redaction.redact);
    try {
      this.#child = spawnProgram(options, cache);
    } catch (error) {
      // The system is out of processes or memory.
      setImmediate(() =>
        this.#handleExit({ cause: `it could not be started: ${(error as Error).message}`, reason: undefined }),
      );
      return;
    }
    const child = this.#child;
    child.on("error", (error) => {
      if (child.pid === undefined) {
        this.#handleExit({ cause: `it could not be started: ${error.message}`, reason: undefined });
      }
    });
    // Undefined if there were no file descriptors for the pipes, which Node's types omit.
    const pipes = child.stdio as ChildProcess["stdio"] | undefined;
    if (pipes === undefined) {
      return;
    }
    if (child.pid !== undefined) {
      note(child.pid, options);
    }
    this.#followOutput(child);
    this.#followFence(pipes[watchFd] as Duplex);
    this.#channel = this.#openChannel(pipes[messageFd] as Duplex, child);
    if (options.hasAdmin) {
      const serve = (): void => this.send({ kind: "serve-admin" });
      this.#admin = new AdminChannel((pipes as unknown[])[adminFd] as Duplex, serve, events.onFlood);
    }
    const stored: StoredSettings = [...settings];
    this.send(initializeMessage(options), stored.length === 0 ? undefined : Buffer.from(JSON.stringify(stored)));
    this.#followDemand(options);
    const { certificates } = options;
    if (certificates !== undefined) {
      const replace = (certificate: Certificate): void => this.send({ kind: "certificate", certificate });
      this.#subscriptions.use(certificates.onChange(replace));
    }
  }

  /** True if the operating system has started it. */
  get isSpawned(): boolean {
    return this.#child?.pid !== undefined;
  }

  /** The process that runs the flows. Undefined if it could not be started, or while its namespaces are created. */
  pid(): number | undefined {
    return (this.#program ??= findProgram(this.#child?.pid, this.#options.launcher));
  }

  /** See `ChildChannel`. */
  send(message: ToChild, payload?: Uint8Array, onSent?: () => void): void {
    this.#channel?.send(message, payload, onSent);
  }

  /** Opens a connection to the routes of nodes, see `AdminChannel`; undefined if there can be none. */
  connectAdmin(): Duplex | undefined {
    return this.#admin?.connect();
  }

  /** Sends SIGKILL: a process with a blocked event loop does not handle SIGTERM. */
  kill(): void {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return;
    }
    killGroup(child);
    child.kill("SIGKILL");
  }

  #followOutput({ stdout, stderr }: ChildProcess): void {
    const onFlood = (): void => this.#events.onFlood("a flow flooded the log");
    if (stdout) {
      const onLine: OnLine = (line, isCut) => {
        logAsFlows(this.#options, { level: "info", message: this.#readText(line, maxLineChars, isCut) });
      };
      readOutput(stdout, onLine, onFlood);
    }
    if (stderr) {
      const onLine: OnLine = (line, isCut) => {
        this.#isOutOfMemory ||= outOfMemoryLine.test(line);
        logAsFlows(this.#options, { level: "warn", message: this.#readText(line, maxLineChars, isCut) });
      };
      readOutput(stderr, onLine, onFlood);
    }
  }

  /** See child/watchdog.ts. */
  #followFence(watch: Duplex): void {
    watch.on("error", ignore);
    readThrottled(
      watch,
      createLineReader(maxFaultBytes, { onLine: (text) => this.#readFault(text), onTooLong: ignore }),
    );
    const { fence } = this.#options;
    if (fence !== undefined) {
      this.#subscriptions.use(fence.onRenewed((deadline) => void watch.write(formatDeadline(deadline))));
    }
  }

  #readFault(text: string): void {
    try {
      this.#fault = parseFault(JSON.parse(text), this.#readText) ?? this.#fault;
    } catch {
      // A flow has written it.
    }
  }

  /** Debug messages are reported while somebody has them. */
  #followDemand({ nodes }: CompleteOptions): void {
    if (nodes === undefined) {
      return;
    }
    let isWanted = false;
    const follow = (): void => {
      if (isWanted !== nodes.wantsDebug()) {
        isWanted = !isWanted;
        this.send({ kind: "report-debug", isWanted });
      }
    };
    follow();
    this.#subscriptions.use(nodes.onDemand(follow));
  }

  #openChannel(pipe: Duplex, child: ChildProcess): ChildChannel {
    const { protectedPorts, launcher } = this.#options;
    const channel = openChildChannel(pipe, {
      readText: this.#readText,
      onMessage: (message) => this.#handleMessage(message),
      onInvalidMessage: () => {
        this.#isChannelInvalid = true;
        this.kill();
      },
    });
    const protectPort = (port: number): void => channel.send({ kind: "protect-port", port });
    protectedPorts.all().forEach(protectPort);
    this.#subscriptions.use(protectedPorts.onAdded(protectPort));

    // A child without its channel can't be controlled. In namespaces, what has started it reports its exit a little later.
    const exitReportMs = launcher.level === "namespaces" ? 500 : 0;
    const exitReport = (): unknown => (exitReportMs > 0 ? delay(exitReportMs, undefined, { ref: false }) : undefined);
    void channel.closed.then(exitReport).then(() => this.kill());

    child.on("exit", (code, signal) => {
      this.#subscriptions.dispose();
      // The processes that flows have spawned are in its process group.
      if (this.#options.allow.childProcess) {
        killGroup(child);
      }
      // Waits for the last messages, for a limited time: a process that a flow has spawned can keep the channel open.
      void Promise.race([channel.closed, delay(500, undefined, { ref: false })]).then(() => {
        channel.close();
        this.#admin?.close();
        const ended = signalOf(code, launcher) ?? signal;
        this.#handleExit(
          ended === null ? { cause: `it exited with code ${code}`, reason: "crashed" } : this.#explainSignal(ended),
        );
      });
    });
    return channel;
  }

  #handleMessage(message: FromChild): void {
    if (message.kind !== "log" && !this.#messageBudget.take()) {
      this.#events.onFlood("a flow flooded the runtime's own channel");
    }
    this.#events.onMessage(message);
  }

  /** V8 aborts the process when its heap is full. */
  #explainSignal(signal: NodeJS.Signals): Pick<ProcessExit, "cause" | "reason"> {
    const cause = `it was ended by ${signal}`;
    if (signal !== "SIGABRT") {
      return { cause, reason: "killed" };
    }
    return this.#isOutOfMemory
      ? { cause: "it ran out of memory", reason: "out_of_memory" }
      : { cause, reason: "crashed" };
  }

  #handleExit(exit: ProcessExit): void {
    if (this.#hasExited) {
      return;
    }
    this.#hasExited = true;
    const { cause, reason } = this.#isChannelInvalid
      ? ({ cause: "a flow wrote into the runtime's own channel", reason: "killed" } as const)
      : exit;
    this.#events.onExit({ cause, reason, fault: this.#fault });
  }
}

/** A full disk must not keep the flows from running. */
function note(pid: number, { processFile, log }: CompleteOptions): void {
  try {
    if (processFile !== undefined) {
      noteProcess(processFile, pid);
    }
  } catch (error) {
    const message = `the process of the flow runtime could not be noted for the next start: ${(error as Error).message}`;
    log({ level: "warn", message }, "runtime");
  }
}

/** Listener for errors of a channel or pipe whose process has exited, which `exit` reports. */
function ignore(): void {}

/** The messages that V8 prints before it aborts the process. */
const outOfMemoryLine = /^FATAL ERROR: .* out of memory$/;
