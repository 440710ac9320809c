import { isFields } from "@flowgate/base/fields";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Call, Reply } from "./messages.ts";
import { createReadText } from "./node-events.ts";
import { maxLineChars } from "./output.ts";
import { type Redaction, redactTextsOf } from "./redaction.ts";

/**
 * Something that the service asks of the runtime process, by its name. `parse` checks the result, which flows can forge, and redacts
 * each text in it; undefined: it is not valid. The argument is sent as JSON.
 */
export type Procedure<Argument, Result> = {
  readonly name: string;
  readonly parse: (result: unknown, redact: (text: string) => string) => Result | undefined;
  /** Never set: it has the type of the argument. */
  readonly argument?: Argument;
};

export type CallOptions = {
  /** How long to wait for the result. Defaults to 5 s. */
  readonly withinMs?: number | undefined;
  /** Abort signal of the caller. */
  readonly signal?: AbortSignal | undefined;
};

const defaultMs = 5_000;

/** Of the JSON of a result. */
export const maxReplyBytes = 1.25 * 1024 * 1024;

/** Of one message with a part of it, as base64. */
export const replyPartBytes = 90_000;

const maxParts = Math.ceil(maxReplyBytes / replyPartBytes);

/** Each takes a few milliseconds of the child's event loop, and up to `maxReplyBytes` of memory. */
const maxOpen = 16;

type OpenCall = {
  readonly parts: string[];
  readonly resolve: (reply: string) => void;
  readonly reject: (error: FlowgateError) => void;
};

/** Calls `onSent` when the argument is not in memory any more. */
type SendCall = (call: Call, argument: Uint8Array, onSent: () => void) => void;

/**
 * The calls to one process. A result arrives in parts, since lines of the channel are short, and in any order with other
 * messages. A process that does not reply, replies too much or something else than the procedure returns fails that call only.
 */
export class Calls {
  readonly #send: SendCall;
  readonly #onFailure: (message: string) => void;
  readonly #redaction: Redaction;
  readonly #open = new Map<number, OpenCall>();
  /** Arguments that the process has not read. A flow can stop reading from the channel. */
  #unread = 0;
  #lastId = 0;

  /** `onFailure` gets the message of each error of the flow runtime. */
  constructor(send: SendCall, onFailure: (message: string) => void, redaction: Redaction) {
    this.#send = send;
    this.#onFailure = onFailure;
    this.#redaction = redaction;
  }

  /** Rejects with `flows_unresponsive`, `limit_exceeded`, `call_failed`, or the reason of the signal. */
  async call<Argument, Result>(
    { name, parse }: Procedure<Argument, Result>,
    argument: Argument,
    { withinMs = defaultMs, signal }: CallOptions = {},
  ): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#open.size >= maxOpen) {
      throw new FlowgateError("limit_exceeded", `${maxOpen} calls wait for the flows already: try again later`);
    }
    // Otherwise those of calls that have ended would fill the memory.
    if (this.#unread >= maxOpen) {
      throw unresponsive("does not read what it is asked");
    }
    const id = (this.#lastId += 1);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const waitMs = Math.min(withinMs, defaultMs);
    const timer = setTimeout(() => reject(unresponsive(`did not reply within ${waitMs} ms`)), waitMs);
    const abort = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", abort);
    this.#open.set(id, { parts: [], resolve, reject });
    this.#unread += 1;
    this.#send({ kind: "call", id, procedure: name }, Buffer.from(JSON.stringify(argument)), () => {
      this.#unread -= 1;
    });
    let reply: string;
    try {
      reply = await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      this.#open.delete(id);
    }
    const { result, failure } = parseReply(reply);
    if (typeof failure === "string") {
      this.#onFailure(
        `${name}: ${createReadText(this.#redaction.redact)(failure.slice(0, maxLineChars), maxLineChars)}`,
      );
      throw new FlowgateError("call_failed", "the flow runtime has failed to do this: its log has the error");
    }
    const isCut = isFields(result) && result["isTruncated"] === true;
    try {
      const parsed = parse(result, await redactTextsOf(result, reply.length, this.#redaction, isCut));
      if (parsed !== undefined) {
        return parsed;
      }
    } catch (error) {
      // It is nested too deeply.
      if (!(error instanceof RangeError)) {
        throw error;
      }
    }
    throw unresponsive("replied with something else");
  }

  /** A reply to a call that does not wait any more is ignored. */
  handleReply({ id, part, isLast }: Reply): void {
    const call = this.#open.get(id);
    if (call === undefined) {
      return;
    }
    call.parts.push(part);
    if (call.parts.length > maxParts) {
      call.reject(unresponsive("replied with too much"));
    } else if (isLast) {
      call.resolve(Buffer.concat(call.parts.map((each) => Buffer.from(each, "base64"))).toString());
    }
  }

  /** The process has exited. */
  end(): void {
    for (const { reject } of this.#open.values()) {
      reject(unresponsive("ended before it replied"));
    }
  }
}

function parseReply(reply: string): { readonly result?: unknown; readonly failure?: unknown } {
  try {
    const value: unknown = JSON.parse(reply);
    return isFields(value) ? value : {};
  } catch (error) {
    if (error instanceof SyntaxError) {
      return {};
    }
    throw error;
  }
}

/** It is not known whether the flows have done it. */
function unresponsive(what: string): FlowgateError {
  return new FlowgateError(
    "flows_unresponsive",
    `the runtime process ${what}: a flow may block its event loop; see the state of the runtime`,
  );
}

/** The error of a call to flows that are to be stopped. */
export function flowsStopped(): FlowgateError {
  return new FlowgateError("flows_stopped", "the flows are stopped: start them first, with StartFlows");
}

/** The error of a call to flows that this replica does not run. `runners` are the names of those that do, as far as they are known. */
export function noRuntime(why: string, runners: readonly string[] = []): FlowgateError {
  const where = runners.length === 0 ? "a replica that runs them" : runners.join(" or ");
  return new FlowgateError("no_runtime", `${why}: send the request to ${where}`);
}
