import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { Context } from "@opentelemetry/api";
import type { Logger } from "pino";
import {
  DeploymentType as DeploymentTypeMessage,
  GetFlowsResponseSchema,
  type FlowsService,
  type GetFlowsResponse,
  type SetFlowsRequest,
} from "../../gen/flowgate/v1/flows_pb.ts";
import { peerKey, principalKey } from "../auth/principal.ts";
import { FlowgateError } from "../errors.ts";
import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import { mergeCredentials } from "../flows/credentials.ts";
import { formatDocument } from "../flows/document.ts";
import { parseFlows } from "../flows/parse-flows.ts";
import { toNodes } from "../flows/to-nodes.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { FlowStore, Revision } from "../store/store.ts";
import type { DeploymentOutcome, Observer } from "../telemetry/observer.ts";
import { inSpan, traceIds, traceKey } from "../telemetry/trace.ts";

export type FlowsServiceOptions = {
  readonly store: FlowStore;
  readonly runtime: Runtime;
  /** Opens the encrypted form of credentials; throws `invalid_credentials` where it can't. */
  readonly decrypt: (encrypted: string) => CredentialSets;
  readonly log: Logger;
  readonly observer: Pick<Observer, "deployed">;
};

export function flowsService({
  store,
  runtime,
  decrypt,
  log,
  observer,
}: FlowsServiceOptions): ServiceImpl<typeof FlowsService> {
  const answers = new WeakMap<Revision, GetFlowsResponse>();

  return {
    getFlows() {
      const revision = store.active();
      let answer = answers.get(revision);
      if (answer === undefined) {
        // Frozen: whoever encodes it may keep the bytes, for this object never changes.
        answer = Object.freeze(
          create(GetFlowsResponseSchema, { rev: revision.rev, flows: toNodes(revision.flows.nodes) }),
        );
        answers.set(revision, answer);
      }
      return answer;
    },

    async setFlows(request, { values, signal, timeoutMs }) {
      const startMs = performance.now();
      const type = deploymentTypeOf(request);
      const by = values.get(principalKey).username;
      const trace = values.get(traceKey);
      const end = (outcome: DeploymentOutcome): void =>
        observer.deployed(type, outcome, (performance.now() - startMs) / 1000);
      let revision: Revision;
      try {
        // A body may have come too late.
        signal.throwIfAborted();
        // Store first: a runtime that dies on these flows must find them again when it restarts.
        revision =
          type === "reload"
            ? await inSpan(trace, "store.reload", {}, () => store.reload())
            : await commit(store, request, { deploymentType: type, by, decrypt, trace, signal });
      } catch (error) {
        end(signal.aborted ? "canceled" : outcomeOf(error));
        throw error;
      }
      const attributes = { "flowgate.rev": revision.rev, "flowgate.deployment.type": type };
      const isRunning = await inSpan(trace, "runtime.apply", attributes, async (span) => {
        const withinMs = answerWithin(timeoutMs());
        const applied = await runtime.apply(revision, type, span.context, { withinMs, signal });
        span.set("flowgate.deployment.outcome", applied ? "running" : "not_running");
        return applied;
      });
      end(isRunning ? "running" : "not_running");
      log.info(
        {
          requestId: values.get(peerKey).requestId,
          ...traceIds(trace),
          rev: revision.rev,
          type,
          by,
          nodes: revision.flows.nodes.length,
          runtime: runtime.status().state,
          ms: Math.round(performance.now() - startMs),
        },
        "deployed",
      );
      return { rev: revision.rev };
    },
  };
}

/** What a committed deployment keeps of its caller's deadline to tell of it. */
const answerMs = 250;

/** Once it is committed, the caller had better learn of that in time than wait in vain for the runtime. */
function answerWithin(timeoutMs: number | undefined): number | undefined {
  return timeoutMs && timeoutMs - Math.min(answerMs, timeoutMs / 2);
}

const deploymentTypes: ReadonlyMap<DeploymentTypeMessage, DeploymentType> = new Map([
  [DeploymentTypeMessage.UNSPECIFIED, "full"],
  [DeploymentTypeMessage.FULL, "full"],
  [DeploymentTypeMessage.NODES, "nodes"],
  [DeploymentTypeMessage.FLOWS, "flows"],
  [DeploymentTypeMessage.RELOAD, "reload"],
]);

/** Every type, once. */
export const deploymentTypeNames: readonly DeploymentType[] = [...new Set(deploymentTypes.values())];

/** An open enum can hold any number. */
function deploymentTypeOf({ deploymentType }: SetFlowsRequest): DeploymentType {
  const type = deploymentTypes.get(deploymentType);
  if (type === undefined) {
    throw new FlowgateError(
      "invalid_deployment_type",
      `deployment_type: ${deploymentType} is not known; use FULL, NODES, FLOWS or RELOAD`,
    );
  }
  return type;
}

function outcomeOf(error: unknown): DeploymentOutcome {
  // What is unavailable is the store.
  if (!(error instanceof FlowgateError) || error.reason === "unavailable") {
    return "error";
  }
  return error.reason === "version_mismatch" ? "conflict" : "refused";
}

type CommitOptions = Pick<FlowsServiceOptions, "decrypt"> &
  Pick<Revision, "deploymentType" | "by"> & { readonly trace: Context; readonly signal: AbortSignal };

async function commit(store: FlowStore, request: SetFlowsRequest, options: CommitOptions): Promise<Revision> {
  const { deploymentType, by, decrypt, trace, signal } = options;
  // Between the reading of a large body, its check and the commit, other requests get their turn. The first one is V8's:
  // it collects what reading has left.
  await setImmediate();
  await setImmediate();
  const { flows: nodes, inline } = parseFlows(request.flows);
  await setImmediate();
  const flows = await formatDocument(nodes);
  for (;;) {
    const active = store.active();
    const credentials = mergeCredentials({
      flows: nodes,
      inline,
      given: request.credentials,
      current: active.credentials,
      decrypt,
    });
    try {
      const draft = { parent: request.rev ?? active.rev, deploymentType, by, flows, credentials };
      return await inSpan(trace, "store.commit", { "flowgate.deployment.type": deploymentType }, () =>
        store.commit(draft, signal),
      );
    } catch (error) {
      // A forced deployment has no revision to compare: it only lost a race, and another one won it.
      if (request.rev === undefined && error instanceof FlowgateError && error.reason === "version_mismatch") {
        continue;
      }
      throw error;
    }
  }
}
