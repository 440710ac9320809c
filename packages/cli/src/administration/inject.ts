import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { InjectNodeResponseSchema } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { UsageFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import { describeNode, findNode, readNodes } from "./find-node.ts";

export type InjectFlags = { readonly payload?: string; readonly topic?: string; readonly message?: string };

/** Makes an inject node send its message, or another node receive one. */
export async function injectNode({ session, output }: ClientContext, name: string, flags: InjectFlags): Promise<void> {
  const message = readMessage(flags);
  const nodes = await readNodes(session);
  const node = findNode(nodes, name, "inject");
  // Of a node in a subflow, the flows do not have the id.
  const id = node?.id ?? name;
  const response = await session.runtime.injectNode({ id, ...(message !== undefined && { message }) });
  const target = node === undefined ? printable(name) : describeNode(nodes, node);
  const where = response.replica === "" ? "" : ` on ${printable(response.replica)}`;
  output.message(InjectNodeResponseSchema, response, () => `Injected ${target}${where}.`);
}

/** Undefined: the message that the node has. */
function readMessage({ payload, topic, message }: InjectFlags): JsonObject | undefined {
  if (payload === undefined && topic === undefined && message === undefined) {
    return undefined;
  }
  return {
    ...(message !== undefined && readObject(message)),
    ...(payload !== undefined && { payload: parseValue(payload) }),
    ...(topic !== undefined && { topic }),
  };
}

function readObject(text: string): JsonObject {
  const value = parseValue(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UsageFailure(`--message: must be a JSON object, such as '{"payload": 1}'.`);
  }
  return value;
}

/** JSON, or a text that is none. */
export function parseValue(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text;
  }
}
