import type { ServiceImpl } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { FlowsService, GetFlowsResponse } from "../../../gen/flowgate/v1/flows_pb.ts";
import { originOf } from "../../auth/origin.ts";
import { FlowgateError } from "../../errors.ts";
import type { DeploymentType } from "../../flows/configuration.ts";
import type { DeploymentResult, Runtime } from "../../runtime/runtime.ts";
import type { AuditStore, Revision } from "../../store/store.ts";
import type { DeploymentOutcome, Observer } from "../../telemetry/observer.ts";
import { inSpan, traceIds, traceKey } from "../../telemetry/trace.ts";
import { type CommitOptions, commitRequest } from "./commit.ts";
import { toGetFlowsResponse, toSetFlowsResponse } from "./responses.ts";

export type FlowsServiceOptions = Pick<CommitOptions, "store" | "prepare" | "decrypt"> & {
  readonly runtime: Runtime;
  /** Reloads are recorded, which commit nothing. */
  readonly audit: Pick<AuditStore, "append">;
  readonly log: Logger;
  readonly observer: Pick<Observer, "deployed">;
};

export function flowsService({
  store,
  runtime,
  audit,
  prepare,
  decrypt,
  log,
  observer,
}: FlowsServiceOptions): ServiceImpl<typeof FlowsService> {
  const responses = new WeakMap<Revision, GetFlowsResponse>();

  return {
    getFlows() {
      const revision = store.active();
      let response = responses.get(revision);
      if (response === undefined) {
        response = toGetFlowsResponse(revision);
        responses.set(revision, response);
      }
      return response;
    },

    async setFlows(request, context) {
      const { values, signal, timeoutMs } = context;
      const startMs = performance.now();
      const origin = originOf(context);
      const trace = values.get(traceKey);
      // A request whose type is not known is not counted as a deployment.
      let type: DeploymentType | undefined;
      const observe = (outcome: DeploymentOutcome): void => {
        if (type !== undefined) {
          observer.deployed(type, outcome, (performance.now() - startMs) / 1000);
        }
      };

      let revision: Revision;
      try {
        // Store first: if the runtime crashes on these flows, it must find them again when it restarts.
        revision = await commitRequest(request, {
          store,
          prepare,
          decrypt,
          origin,
          trace,
          signal,
          onType: (each) => (type = each),
        });
      } catch (error) {
        observe(signal.aborted ? "canceled" : outcomeOfError(error));
        throw error;
      }
      if (type === "reload") {
        await audit.append([{ kind: "deployment", origin, subject: revision.rev, detail: type }]);
      }
      const deploymentType = type ?? revision.deploymentType;
      const attributes = { "flowgate.rev": revision.rev, "flowgate.deployment.type": deploymentType };
      const result = await inSpan(trace, "runtime.apply", attributes, async (span) => {
        const withinMs = runtimeTimeoutMs(timeoutMs());
        const applied = await runtime.apply(revision, deploymentType, span.context, { withinMs, signal });
        span.set("flowgate.deployment.outcome", outcomeOfResult(applied));
        return applied;
      });
      observe(outcomeOfResult(result));
      log.info(
        {
          requestId: origin.requestId,
          ...traceIds(trace),
          rev: revision.rev,
          type,
          by: origin.by,
          nodes: revision.flows.count,
          runtime: runtime.status().state,
          ms: Math.round(performance.now() - startMs),
        },
        "deployed",
      );
      return toSetFlowsResponse(revision, result);
    },
  };
}

function outcomeOfResult({ outcome }: DeploymentResult): DeploymentOutcome {
  return outcome === "running" ? "running" : "not_running";
}

function outcomeOfError(error: unknown): DeploymentOutcome {
  // `unavailable` is a failure of the store.
  if (!(error instanceof FlowgateError) || error.reason === "unavailable") {
    return "error";
  }
  return error.reason === "version_mismatch" ? "conflict" : "refused";
}

/** The part of the caller's deadline that is reserved for sending the response. */
const responseMs = 250;

/**
 * How long a call waits for the runtime. It ends before the caller's deadline, so that the caller gets the revision of the
 * deployment that is committed already.
 */
function runtimeTimeoutMs(timeoutMs: number | undefined): number | undefined {
  return timeoutMs && timeoutMs - Math.min(responseMs, timeoutMs / 2);
}
