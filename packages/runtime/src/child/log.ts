import type { LogEntry, LogLevel } from "../messages.ts";
import { LogBudget, maxLineChars } from "../output.ts";
import { formatLogged } from "./error-text.ts";

/** A record as the flow runtime passes it to its log handlers. */
export type RuntimeLogRecord = {
  readonly level: number;
  readonly msg?: unknown;
  readonly id?: unknown;
  readonly type?: unknown;
  readonly name?: unknown;
  readonly z?: unknown;
};

export type RuntimeLog = {
  readonly handle: (record: RuntimeLogRecord) => void;
  /** Enables levels below `warn`. They are disabled at first, because the runtime logs its start before it has flows. */
  enable(): void;
};

const levels: Record<number, LogLevel> = { 10: "fatal", 20: "error", 30: "warn", 40: "info", 50: "debug", 60: "trace" };

/**
 * Creates a log handler for the flow runtime. It formats each record synchronously, because the debug node changes its
 * objects afterwards. `levelOf` returns the level for records of the runtime itself, or undefined to drop one.
 */
export function createRuntimeLog(
  emit: (entry: LogEntry) => void,
  levelOf: (entry: LogEntry) => LogLevel | undefined,
): RuntimeLog {
  /** The dropped lines that are not reported in another way, as errors and warnings of nodes are. */
  let dropped = 0;
  const budget = new LogBudget((lines) => {
    emit({ level: "warn", message: `${lines} log lines of the flows were dropped`, dropped });
    dropped = 0;
  });
  let isEnabled = false;

  return {
    handle(record) {
      if (!isEnabled && record.level > 30) {
        return;
      }
      if (!budget.take()) {
        budget.countDropped(1);
        dropped += typeof record.id === "string" && record.level <= 30 ? 0 : 1;
        return;
      }
      const entry = toEntry(record);
      const level = entry.nodeId === undefined ? levelOf(entry) : entry.level;
      if (level !== undefined) {
        emit({ ...entry, level });
      }
    },
    enable() {
      isEnabled = true;
    },
  };
}

function toEntry({ level, msg, id, type, name, z }: RuntimeLogRecord): LogEntry {
  return {
    level: levels[level] ?? "info",
    message: formatLogged(msg).slice(0, maxLineChars),
    ...(typeof id === "string" && { nodeId: id }),
    ...(typeof type === "string" && { nodeType: type }),
    ...(typeof name === "string" && { nodeName: name }),
    ...(typeof z === "string" && { flowId: z }),
  };
}
