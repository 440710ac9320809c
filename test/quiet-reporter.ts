import { MinimalReporter, type TestCase, type TestModule, type TestSuite } from "vitest/node";

declare module "vitest" {
  interface TaskMeta {
    /** Why a test is skipped, as `needs` states it. */
    skipReason?: string;
  }
}

type RunEnd = Parameters<MinimalReporter["onTestRunEnd"]>;

/** Prints failures with their output, why tests were skipped, and the summary; nothing of tests that pass. */
export default class QuietReporter extends MinimalReporter {
  override onTestRunEnd(modules: RunEnd[0], errors: RunEnd[1], reason: RunEnd[2]): void {
    // A filter by name skips all others.
    if (this.ctx.config.testNamePattern === undefined) {
      this.#printSkipped(modules);
    }
    super.onTestRunEnd(modules, errors, reason);
  }

  #printSkipped(modules: readonly TestModule[]): void {
    const skipped = modules.flatMap((module) => [...module.children.allTests("skipped")]);
    for (const [reason, tests] of Map.groupBy(skipped, reasonOf)) {
      this.log(`skipped ${tests.length === 1 ? "1 test" : `${tests.length} tests`}: ${reason}`);
    }
  }
}

/** The reason of a test or of what contains it; its name if none is stated. */
function reasonOf(test: TestCase): string {
  const { note } = test.result() as { readonly note?: string };
  return note ?? statedReason(test) ?? `${test.module.relativeModuleId} > ${test.fullName}, without a reason`;
}

function statedReason(task: TestCase | TestSuite): string | undefined {
  const { parent } = task;
  return task.meta().skipReason ?? (parent.type === "module" ? undefined : statedReason(parent));
}
