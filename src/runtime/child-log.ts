import { inspect } from "node:util";
import { createLogBudget, maxLineChars } from "./log-budget.ts";
import type { LogEntry, LogLevel } from "./messages.ts";

/** What the runtime gives its log handlers. */
type RuntimeLogRecord = {
  readonly level: number;
  readonly msg?: unknown;
  readonly id?: unknown;
  readonly type?: unknown;
  readonly name?: unknown;
};

export type RuntimeLog = {
  readonly handle: (record: RuntimeLogRecord) => void;
  /** Until then only warnings and worse pass: the runtime announces that it starts, but has no flows yet. */
  open(): void;
};

const levels: Record<number, LogLevel> = { 10: "fatal", 20: "error", 30: "warn", 40: "info", 50: "debug", 60: "trace" };

/**
 * Turns the runtime's records into entries at once: the debug node changes its objects afterwards.
 * `levelOf` may lower the level of what the runtime itself says, or drop it.
 */
export function createRuntimeLog(
  emit: (entry: LogEntry) => void,
  levelOf: (entry: LogEntry) => LogLevel | undefined,
): RuntimeLog {
  const budget = createLogBudget((lines) => {
    emit({ level: "warn", message: `${lines} log lines of the flows were dropped` });
  });
  let isOpen = false;

  return {
    handle(record) {
      if (!isOpen && record.level > 30) return;
      if (!budget.pass()) {
        budget.drop(1);
        return;
      }
      const entry = entryOf(record);
      const level = entry.nodeId === undefined ? levelOf(entry) : entry.level;
      if (level !== undefined) emit({ ...entry, level });
    },
    open() {
      isOpen = true;
    },
  };
}

function entryOf({ level, msg, id, type, name }: RuntimeLogRecord): LogEntry {
  return {
    level: levels[level] ?? "info",
    message: textOf(msg).slice(0, maxLineChars),
    ...(typeof id === "string" && { nodeId: id }),
    ...(typeof type === "string" && { nodeType: type }),
    ...(typeof name === "string" && { nodeName: name }),
  };
}

function textOf(msg: unknown): string {
  if (typeof msg === "string") return msg;
  try {
    if (msg instanceof Error) return msg.stack ?? msg.message;
    return inspect(msg, { depth: 4, maxArrayLength: 100, maxStringLength: maxLineChars, breakLength: Infinity });
  } catch {
    // A getter or a custom inspect of the flow's own object: it must not end the process.
    return "(a value that cannot be shown)";
  }
}
