import { expect, test } from "vitest";
import { FlowgateError } from "@flowgate/flows/errors";
import { Calls, maxReplyBytes, type Procedure } from "../src/calls.ts";
import { createCallServer, type CallHandler } from "../src/child/call-server.ts";
import { type Reply, parseFromChild } from "../src/messages.ts";
import { cutText } from "../src/node-events.ts";
import { noRedaction } from "../src/redaction.ts";
import * as contextProcedures from "../src/context-procedures.ts";
import * as editorProcedures from "../src/editor-procedures.ts";
import { Redactor, compileValues } from "../../../src/events/redaction/redactor.ts";
import { injectNode } from "../src/inject-procedure.ts";
import { fixture, revision, runtimeUnderTest } from "./builders.ts";
import { createDesiredState } from "./desired-state.ts";

const echo: Procedure<unknown, string> = {
  name: "echo",
  parse: (result) => (typeof result === "string" ? result : undefined),
};

/** Calls that handlers of the child answer. `alter` changes the replies on their way. */
function connect(
  handlers: Record<string, CallHandler>,
  alter = (replies: readonly Reply[]) => replies,
  onFailure: (message: string) => void = () => {},
  redaction = noRedaction,
): Calls {
  const calls: Calls = new Calls(
    (call, argument, onSent) => {
      onSent();
      const replies: Reply[] = [];
      const serve = createCallServer(new Map(Object.entries(handlers)), (reply) => replies.push(reply));
      void serve(call, Buffer.from(argument)).then(() => {
        for (const reply of alter(replies)) {
          calls.handleReply(parseFromChild(JSON.parse(JSON.stringify(reply)), cutText) as Reply);
        }
      });
    },
    onFailure,
    redaction,
  );
  return calls;
}

function reasonOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    (result) => result,
    (error: unknown) => (error instanceof FlowgateError ? error.reason : error),
  );
}

test("a result has any length, arrives in several messages, and belongs to its call", async () => {
  const calls = connect({ echo: async (argument: string) => argument });
  const texts = ["", "Zoë 🔑\u0000\n", "🔑".repeat(200_000)];
  expect(await Promise.all(texts.map((text) => calls.call(echo, text)))).toEqual(texts);
});

test("what a handler throws, and a procedure that does not exist, are failures of the call", async () => {
  const failures: string[] = [];
  const broken: Record<string, CallHandler>[] = [
    {
      echo() {
        throw new Error("out of order");
      },
    },
    {
      echo() {
        throw "no error"; // oxlint-disable-line only-throw-error -- flows can
      },
    },
    {},
    { echo: () => "x".repeat(maxReplyBytes) },
  ];
  for (const handlers of broken) {
    const calls = connect(handlers, undefined, (message) => failures.push(message));
    await expect(calls.call(echo, "")).rejects.toMatchObject({ reason: "call_failed" });
  }
  expect(failures).toEqual([
    "echo: out of order",
    "echo: something was thrown that is no error",
    "echo: it does not have this procedure",
    "echo: the result is too large",
  ]);
});

test.each<[string, (replies: readonly Reply[]) => readonly Reply[]]>([
  ["something else", (replies) => replies.map((reply) => ({ ...reply, part: btoa('{"result": 5}') }))],
  ["no JSON", (replies) => replies.map((reply) => ({ ...reply, part: btoa("{") }))],
  ["no object", (replies) => replies.map((reply) => ({ ...reply, part: btoa("null") }))],
  ["endless parts", ([reply]) => Array.from({ length: 100 }, () => ({ ...(reply as Reply), isLast: false }))],
])("a forged reply with %s fails the call", async (_, alter) => {
  const calls = connect({ echo: (argument: string) => argument }, alter);
  expect(await reasonOf(calls.call(echo, "text"))).toBe("flows_unresponsive");
});

test("a reply to another call, or after the end of one, is ignored", async () => {
  const calls = connect({ echo: (argument: string) => argument }, (replies) =>
    replies.flatMap((reply) => [{ ...reply, id: reply.id + 100 }, reply, reply]),
  );
  expect(await calls.call(echo, "text")).toBe("text");
});

test("a call ends at its time limit, with its caller, with the process, and if there are too many", async () => {
  const calls = new Calls(
    (_call, _argument, onSent) => onSent(),
    () => {},
    noRedaction,
  );
  expect(await reasonOf(calls.call(echo, "", { withinMs: 1 }))).toBe("flows_unresponsive");
  const reason = new Error("the caller has left");
  const leaving = new AbortController();
  const left = reasonOf(calls.call(echo, "", { signal: leaving.signal }));
  leaving.abort(reason);
  expect(await left).toBe(reason);
  const many = Array.from({ length: 20 }, () => reasonOf(calls.call(echo, "")));
  calls.end();
  const reasons = await Promise.all(many);
  expect(reasons.filter((each) => each === "flows_unresponsive")).toHaveLength(16);
  expect(reasons.filter((each) => each === "limit_exceeded")).toHaveLength(4);
});

test("no calls are sent to a process that does not read those that have ended", async () => {
  const unread: (() => void)[] = [];
  const calls = new Calls(
    (_call, _argument, onSent) => unread.push(onSent),
    () => {},
    noRedaction,
  );
  const ended = Array.from({ length: 16 }, () => calls.call(echo, "", { withinMs: 1 }));
  await Promise.allSettled(ended);
  await expect(calls.call(echo, "")).rejects.toMatchObject({
    reason: "flows_unresponsive",
    message: expect.stringContaining("does not read"),
  });
  expect(unread).toHaveLength(16);
  unread.pop()?.();
  expect(await reasonOf(calls.call(echo, "", { withinMs: 1 }))).toBe("flows_unresponsive");
  expect(unread).toHaveLength(16);
});

test("a runtime can be called while it runs flows only, and a call ends when its process does", async () => {
  const desired = createDesiredState();
  const active = async () => revision(1, [{ id: "a", type: "a" }]);
  await using runtime = await runtimeUnderTest({ entry: fixture("ready"), desired, active });
  const call = () => reasonOf(runtime.call(injectNode, { id: "a" }));
  expect(await call()).toBe("flows_not_running");
  await runtime.untilState("running");
  const waiting = call();
  runtime.kill();
  expect(await waiting).toBe("flows_unresponsive");
  desired.set(false);
  expect(await call()).toBe("flows_stopped");
});

test("a result that is nested too deeply is refused", async () => {
  for (const depth of [10_000, 100_000]) {
    const calls = connect({ "editor-context": () => ({ result: {} }) }, () => {
      const text = `{"result":{"result":{"a":${"[".repeat(depth)}${"]".repeat(depth)}}}}`;
      return [{ kind: "reply", id: 1, part: Buffer.from(text).toString("base64"), isLast: true }];
    });
    expect([
      depth,
      await reasonOf(calls.call(editorProcedures.readEditorContext, { scope: { kind: "global" } } as never)),
    ]).toEqual([depth, "flows_unresponsive"]);
  }
});

test("every text in a result is redacted", async () => {
  const exported: readonly unknown[] = [...Object.values(contextProcedures), ...Object.values(editorProcedures)];
  const isProcedure = (each: unknown): each is Procedure<unknown, unknown> => typeof each === "object";
  const procedures = [...exported.filter(isProcedure), injectNode as Procedure<unknown, unknown>];
  const redactor = new Redactor([compileValues(["hunter2"])]);
  const value = { hunter2: ["is hunter2", Array.from(Buffer.from("is hunter2"))] };
  const scope = { kind: "flow", id: "hunter2" };
  const results: Readonly<Record<string, readonly unknown[]>> = {
    [injectNode.name]: ["received"],
    "context.list": [
      { stores: ["hunter2"], scopes: [{ scope, store: "hunter2", keys: ["hunter2"] }] },
      { missing: "store", stores: ["hunter2"] },
      { refused: "hunter2" },
    ],
    "context.get": [
      { value, format: "hunter2" },
      { values: value },
      { value: "is hunte", format: "string", isTruncated: true },
    ],
    "context.set": [{ refused: "hunter2" }],
    "context.delete": [{ refused: "hunter2" }],
    "editor-context": [{ result: { memory: value } }],
    "editor-settings": [value],
    diagnostics: [value],
    // The editor shows them to those who may read them.
    "node-credentials": [],
  };
  expect(procedures.map(({ name }) => name).toSorted()).toEqual(Object.keys(results).toSorted());
  const redacted = new Set<string>();
  const redactAll = async (texts: ReadonlySet<string>, isCut: boolean) => {
    texts.forEach((text) => redacted.add(text));
    return redactor.redactAll(texts, isCut);
  };
  const redaction = { ...noRedaction, redact: redactor.redact.bind(redactor), redactAll };
  for (const procedure of procedures) {
    for (const result of results[procedure.name] ?? []) {
      // Long results are redacted in a thread.
      for (const padding of [0, 100_000]) {
        const padded = { ...(result as object), padding: "x".repeat(padding) };
        const calls = connect(
          { [procedure.name]: () => (typeof result === "string" ? result : padded) },
          undefined,
          undefined,
          redaction,
        );
        const parsed = await calls.call(procedure, null);
        expect([procedure.name, JSON.stringify(parsed)]).toEqual([
          procedure.name,
          expect.not.stringContaining("hunte"),
        ]);
      }
    }
  }
  expect([...redacted]).toContain("is hunter2");
});

test("the error of a procedure is redacted", async () => {
  const failures: string[] = [];
  const redactor = new Redactor([compileValues(["hunter2"])]);
  const fail = () => {
    throw new Error("it is hunter2");
  };
  const redaction = { ...noRedaction, redact: redactor.redact.bind(redactor) };
  const calls = connect({ echo: fail }, undefined, (message) => failures.push(message), redaction);
  expect(await reasonOf(calls.call(echo, ""))).toBe("call_failed");
  expect(failures).toEqual(["echo: it is [redacted]"]);
});
