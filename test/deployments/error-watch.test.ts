import { describe, expect, onTestFinished, test, vi } from "vitest";
import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { createListeners } from "@flowgate/base/listeners";
import { ErrorWatch } from "../../src/deployments/error-watch.ts";
import type { AffectedNodes } from "@flowgate/flows/compare";
import { EventHub } from "../../src/events/hub.ts";
import { type RevisionResult, running } from "@flowgate/runtime";
import { revision } from "../store/revision.ts";

type Init = {
  readonly affected?: Promise<AffectedNodes>;
  readonly maxErrors?: number;
  readonly forMs?: number;
  /** The revision that the runtime has started before. */
  readonly last?: number;
};

/** A watch of the revision 2. */
function openWatch({ affected = Promise.resolve("all"), maxErrors = 0, forMs = 600_000, last = 1 }: Init = {}) {
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const results = createListeners<RevisionResult>();
  const failures: [seq: number, message: string][] = [];
  const watch = new ErrorWatch({
    revision: revision(2, []),
    limit: { forMs, maxErrors },
    affected,
    countsEarlier: true,
    hub,
    runtime: {
      lastResult: () => ({ revision: revision(last, []), result: running }),
      onResult: (listener) => results.add(listener),
      degrade: (...failure) => void failures.push(failure),
    },
  });
  onTestFinished(() => watch[Symbol.dispose]());
  return {
    watch,
    failures,
    start: (seq = 2) => results.notify({ revision: revision(seq, []), result: running }),
    error: (nodeId = "n", init: Partial<Logged> = {}) => publish(hub, nodeId, init),
  };
}

type Logged = {
  readonly message: string;
  readonly level: LogLevel;
  readonly count: number;
  readonly nodeName: string;
  readonly flowId: string;
  readonly flowLabel: string;
  readonly subflowPath: string[];
};

function publish(
  hub: EventHub,
  nodeId: string,
  { message = "boom", level = LogLevel.ERROR, count = 1, ...node }: Partial<Logged>,
) {
  const kind = { case: "nodeError", value: { message, level, count } } as const;
  hub.publish({ nodeId, nodeType: "function", ...node, kind });
}

test("names the node, its tab, the first error and the number of errors, when there are too many", async () => {
  const { watch, failures, start, error } = openWatch({ maxErrors: 2 });
  await watch.ready;
  start();
  error("n", { nodeName: "parse", flowId: "T", flowLabel: "Orders", message: 'no "x"\n    at line 1' });
  error("m");
  expect(failures).toEqual([]);
  error("m", { count: 3 });
  expect(failures).toEqual([
    [2, 'nodes logged 5 errors (max_errors: 2), first function "parse" (n) in "Orders": "no \\"x\\""'],
  ]);
  error();
  expect(failures).toHaveLength(1);
  await watch.ended;
});

test("shortens what flows have written", async () => {
  const { watch, failures, start, error } = openWatch();
  await watch.ready;
  start();
  error("n", { nodeName: "a".repeat(300), flowLabel: "b".repeat(300), message: "c".repeat(9_000) });
  const [, message = ""] = failures[0] ?? [];
  expect(message).toMatch(/a…" \(n\) in "b+…": "c{200}…"$/);
  expect(message.length).toBeLessThan(450);
});

describe("counts", () => {
  test("only errors after the revision was started", async () => {
    const { watch, failures, start, error } = openWatch();
    await watch.ready;
    error();
    start(1);
    error();
    expect(failures).toEqual([]);
    start();
    error();
    expect(failures).toHaveLength(1);
  });

  test("from now on if the revision runs already", async () => {
    const { watch, failures, error } = openWatch({ last: 2 });
    await watch.ready;
    error();
    expect(failures).toHaveLength(1);
  });

  test("fatal errors, but no warnings", async () => {
    const { watch, failures, start, error } = openWatch();
    await watch.ready;
    start();
    error("n", { level: LogLevel.WARN });
    expect(failures).toEqual([]);
    error("n", { level: LogLevel.FATAL });
    expect(failures).toHaveLength(1);
  });

  test.for<[what: string, nodeId: string, node: Partial<Logged>, isCounted: boolean]>([
    ["an affected node", "a", {}, true],
    ["a node in an affected instance", "inner", { subflowPath: ["outer", "s"] }, true],
    ["a node whose tab or instance is affected", "b", { flowId: "T" }, true],
    ["no other node", "b", { flowId: "U", subflowPath: ["r"] }, false],
  ])("%s", async ([, nodeId, node, isCounted]) => {
    const { watch, failures, start, error } = openWatch({ affected: Promise.resolve(["a", "s", "T"]) });
    await watch.ready;
    start();
    error(nodeId, node);
    expect(failures).toHaveLength(isCounted ? 1 : 0);
  });

  test("errors that were logged before it was known which nodes are affected, also if the time is over then", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { promise: affected, resolve } = Promise.withResolvers<AffectedNodes>();
    const { watch, failures, start, error } = openWatch({ affected, forMs: 1 });
    start();
    error("other");
    error("a");
    vi.advanceTimersByTime(1);
    error("a");
    expect(failures).toEqual([]);
    resolve(["a"]);
    await watch.ended;
    expect(failures).toEqual([[2, 'nodes logged 1 error (max_errors: 0), first function a: "boom"']]);
  });

  test("nothing after its time, after a failure, or after a newer revision was started", async () => {
    const timed = openWatch({ forMs: 1 });
    await timed.watch.ready;
    timed.start();
    await timed.watch.ended;
    timed.error();
    const replaced = openWatch();
    await replaced.watch.ready;
    replaced.start();
    replaced.start(3);
    await replaced.watch.ended;
    replaced.error();
    expect([timed.failures, replaced.failures]).toEqual([[], []]);
  });
});
