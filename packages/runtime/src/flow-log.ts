import type { LogEntry } from "./messages.ts";
import { isNodeError } from "./node-events.ts";
import type { CompleteOptions } from "./options.ts";
import { LogBudget } from "./output.ts";
import { nameOptions } from "./sandbox.ts";

/** The log of one process of the flow runtime, within a budget: the child applies the same one, but flows can write to the channel directly. */
export class FlowLog {
  readonly #options: Pick<CompleteOptions, "log">;
  readonly #onFlood: () => void;
  readonly #budget: LogBudget;
  /** Those of the dropped entries that are not reported in another way, and those that the child has dropped before. */
  #dropped = 0;

  /** `onFlood` is called for each entry beyond the budget. */
  constructor(options: Pick<CompleteOptions, "log">, onFlood: () => void) {
    this.#options = options;
    this.#onFlood = onFlood;
    this.#budget = new LogBudget((entries) => {
      const message = `${entries} log entries were dropped`;
      options.log({ level: "warn", message, dropped: this.#dropped }, "runtime");
      this.#dropped = 0;
    });
  }

  write(entry: LogEntry): void {
    if (this.#budget.take()) {
      logAsFlows(this.#options, entry);
      return;
    }
    this.#budget.countDropped(1);
    this.#dropped += entry.dropped ?? (isNodeError(entry) ? 0 : 1);
    this.#onFlood();
  }

  /** Reports what was dropped. */
  end(): void {
    this.#budget.flush();
  }
}

/** Logs what flows may have written. */
export function logAsFlows({ log }: Pick<CompleteOptions, "log">, entry: LogEntry): void {
  log({ ...entry, message: nameOptions(entry.message) }, "flows");
}
