import { types } from "node:util";
import { maxReplyBytes, replyPartBytes } from "../calls.ts";
import type { Call, Reply } from "../messages.ts";
import { maxLineChars } from "../output.ts";

/** Does what a procedure asks for. The result must be JSON; `encodeValue` converts what is not. */
export type CallHandler = (argument: never) => unknown;

/** Returns a function that executes calls by the name of their procedure, and sends the results. It never rejects. */
export function createCallServer(
  handlers: ReadonlyMap<string, CallHandler>,
  send: (reply: Reply) => void,
): (call: Call, argument: Buffer) => Promise<void> {
  return async ({ id, procedure }, argument) => {
    const reply = Buffer.from(await execute(handlers.get(procedure), argument));
    for (let start = 0; start < reply.length; start += replyPartBytes) {
      const part = reply.toString("base64", start, start + replyPartBytes);
      send({ kind: "reply", id, part, isLast: start + replyPartBytes >= reply.length });
    }
  };
}

async function execute(handler: CallHandler | undefined, argument: Buffer): Promise<string> {
  try {
    if (handler === undefined) {
      return JSON.stringify({ failure: "it does not have this procedure" });
    }
    const reply = JSON.stringify({ result: await handler(JSON.parse(argument.toString()) as never) });
    return Buffer.byteLength(reply) <= maxReplyBytes ? reply : JSON.stringify({ failure: "the result is too large" });
  } catch (error) {
    return JSON.stringify({ failure: describe(error) });
  }
}

/** Flows may have thrown it, and its properties may be getters of theirs. */
function describe(error: unknown): string {
  const message: unknown = types.isNativeError(error)
    ? Object.getOwnPropertyDescriptor(error, "message")?.value
    : undefined;
  return typeof message === "string" ? message.slice(0, maxLineChars) : "something was thrown that is no error";
}
