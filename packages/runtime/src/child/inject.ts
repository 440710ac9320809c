import { type InjectArgument, type InjectResult, injectNode } from "../inject-procedure.ts";
import type { CallHandler } from "./call-server.ts";
import type { NodeRed } from "./node-red.ts";

/** The parts of a node that are used here. The callbacks are undocumented: null without an input. */
type Receiver = {
  readonly type: string;
  /** Of an inject node: the properties of its message, and how they are evaluated. */
  readonly props?: readonly { readonly p: string }[];
  readonly _inputCallback?: unknown;
  readonly _inputCallbacks?: unknown;
  receive(message: object): void;
};

export function injectHandlers({ getNode }: Pick<NodeRed, "getNode">): [string, CallHandler][] {
  return [[injectNode.name, (argument: InjectArgument) => inject(getNode(argument.id) as Receiver | null, argument)]];
}

function inject(node: Receiver | null, { message }: InjectArgument): InjectResult {
  if (node === null) {
    return "unknown";
  }
  if (!node._inputCallback && !node._inputCallbacks) {
    return "no_input";
  }
  node.receive({
    ...message,
    ...(node.type === "inject" && message !== undefined && withoutOverridden(node, message)),
  });
  return "received";
}

/** The properties of the node that the message does not replace, as the editor sends changed ones. */
function withoutOverridden({ props = [] }: Receiver, message: object): object {
  const rootOf = (property: string): string => property.split(/[.[]/, 1)[0] ?? "";
  return { __user_inject_props__: props.filter(({ p }) => !Object.hasOwn(message, rootOf(p))) };
}
