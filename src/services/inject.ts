import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import { FlowgateError } from "../errors.ts";
import type { FlowNode } from "../flows/configuration.ts";
import { containerIdOf, nameOf } from "../flows/nodes.ts";
import { quoteInput } from "../flows/violation.ts";
import { injectNode } from "../runtime/procedures.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { type Runner, callRunner } from "./runner.ts";

export type InjectOptions = Runner & {
  readonly store: Pick<FlowStore, "active">;
  readonly audit: Pick<AuditRecorder, "record">;
};

export function injectMethods(options: InjectOptions): Pick<ServiceImpl<typeof RuntimeService>, "injectNode"> {
  return {
    async injectNode({ id, message }, context: HandlerContext) {
      const { result, replica } = await callRunner(options, injectNode, { id, message }, context);
      const name = quoteInput(id);
      switch (result) {
        case "received":
          options.audit.record({ kind: "node_injected", origin: originOf(context), subject: id, detail: replica });
          return { ...(replica !== undefined && { replica }) };
        case "no_input":
          throw new FlowgateError("no_input", `the node ${name} receives no messages: use one that has an input`);
        case "unknown":
          throw explainUnknown(name, id, options.store.active().flows.nodes);
      }
    },
  };
}

/** Why a node does not run, according to the active flows. */
function explainUnknown(name: string, id: string, nodes: readonly FlowNode[]): FlowgateError {
  const node = nodes.find((each) => each.id === id);
  if (node === undefined) {
    return new FlowgateError("not_found", `there is no node ${name} in the active flows`);
  }
  if (node.type === "tab" || node.type === "subflow" || node.type === "group") {
    return new FlowgateError("no_input", `${name} is a ${node.type}, which receives no messages: use the id of a node`);
  }
  const container = nodes.find((each) => each.id === containerIdOf(node));
  if (container?.type === "subflow") {
    return new FlowgateError(
      "not_found",
      `the node ${name} is in a subflow, whose nodes run in its instances: use the id of an instance, or "<id of the instance>-<id of the node>"`,
    );
  }
  if (node["d"] === true) {
    return new FlowgateError("node_disabled", `the node ${name} is disabled: enable it with a deployment`);
  }
  if (container?.["disabled"] === true) {
    const flow = quoteInput(nameOf(container) ?? container.id);
    return new FlowgateError("node_disabled", `the flow ${flow} of the node is disabled: enable it first`);
  }
  return new FlowgateError(
    "flows_not_running",
    `the node ${name} does not run: the active flows could not be started, or not yet`,
  );
}
