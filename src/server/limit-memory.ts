import { isDeferred } from "@flowgate/gateway/server";
import type { Observer } from "../telemetry/observer.ts";
import { createOverloadReporter } from "./guards/load-shedding.ts";
import { defaultMemoryWaitMs, type ServerOptions } from "./options.ts";
import type { RequestEnvironment } from "./pipeline/request-context.ts";
import { assertDecodable } from "./memory/decoding-limit.ts";
import { createMemoryBudget } from "./memory/memory-budget.ts";

/** The budget for bodies, and the limit of messages that are decoded on the event loop. */
export function limitMemory(
  { limits: { memoryMb, memoryWaitMs = defaultMemoryWaitMs }, deferred = [], log }: ServerOptions,
  observer: Observer,
): Pick<RequestEnvironment, "memory" | "assertDecodable"> {
  if (memoryMb === undefined) {
    return { memory: undefined, assertDecodable: undefined };
  }
  const report = createOverloadReporter(log, observer);
  return {
    memory: createMemoryBudget({
      bytes: memoryMb * 1024 * 1024,
      waitMs: memoryWaitMs,
      createError: () => report("memory"),
    }),
    assertDecodable({ route: { method }, messageFormat }, body) {
      if (method !== undefined && !isDeferred(method, deferred)) {
        assertDecodable(method.input, messageFormat, body, memoryMb);
      }
    },
  };
}
