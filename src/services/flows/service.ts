import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { Context } from "@opentelemetry/api";
import type { Logger } from "pino";
import {
  DeploymentOutcome as DeploymentOutcomeMessage,
  GetFlowsResponseSchema,
  type FlowsService,
  type GetFlowsResponse,
  type Node,
  type SetFlowsRequest,
} from "../../gen/flowgate/v1/flows_pb.ts";
import { peerKey, principalKey } from "../auth/principal.ts";
import { FlowgateError } from "../errors.ts";
import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import { type Decrypt, mergeCredentials } from "../flows/credentials.ts";
import type { PreparedDeployment } from "../flows/prepare.ts";
import { toNodes } from "../flows/to-nodes.ts";
import type { DeploymentResult, Runtime } from "../runtime/runtime.ts";
import type { FlowStore, Revision } from "../store/store.ts";
import type { DeploymentOutcome, Observer } from "../telemetry/observer.ts";
import { inSpan, traceIds, traceKey } from "../telemetry/trace.ts";
import { setEncodedField } from "@flowgate/transcoding";

export type FlowsServiceOptions = {
  readonly store: FlowStore;
  readonly runtime: Runtime;
  /**
   * Checks a request and merges its credentials into the current ones, as `prepareDeployment` does. A request that was not
   * decoded yet is decoded, which may throw too.
   */
  readonly prepare: (request: SetFlowsRequest, current: CredentialSets) => Promise<PreparedDeployment>;
  readonly decrypt: Decrypt;
  readonly log: Logger;
  readonly observer: Pick<Observer, "deployed">;
};

export function flowsService({
  store,
  runtime,
  prepare,
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
        answer = toResponse(revision);
        answers.set(revision, answer);
      }
      return answer;
    },

    async setFlows(request, { values, signal, timeoutMs }) {
      const startMs = performance.now();
      const by = values.get(principalKey).username;
      const trace = values.get(traceKey);
      // Before the type is known there is no deployment.
      let type: DeploymentType | undefined;
      const end = (outcome: DeploymentOutcome): void => {
        if (type !== undefined) {
          observer.deployed(type, outcome, (performance.now() - startMs) / 1000);
        }
      };

      let revision: Revision;
      try {
        // Store first: a runtime that dies on these flows must find them again when it restarts.
        revision = await commit(request, {
          store,
          prepare,
          decrypt,
          by,
          trace,
          signal,
          known: (each) => (type = each),
        });
      } catch (error) {
        end(signal.aborted ? "canceled" : outcomeOf(error));
        throw error;
      }
      const deploymentType = type ?? revision.deploymentType;
      const attributes = { "flowgate.rev": revision.rev, "flowgate.deployment.type": deploymentType };
      const { outcome, missingTypes } = await inSpan(trace, "runtime.apply", attributes, async (span) => {
        const withinMs = answerWithin(timeoutMs());
        const applied = await runtime.apply(revision, deploymentType, span.context, { withinMs, signal });
        span.set("flowgate.deployment.outcome", measuredOutcome(applied));
        return applied;
      });
      end(measuredOutcome({ outcome }));
      log.info(
        {
          requestId: values.get(peerKey).requestId,
          ...traceIds(trace),
          rev: revision.rev,
          type,
          by,
          nodes: revision.flows.count,
          runtime: runtime.status().state,
          ms: Math.round(performance.now() - startMs),
        },
        "deployed",
      );
      return { rev: revision.rev, outcome: outcomes[outcome], missingTypes: fitHeader(missingTypes) };
    },
  };
}

/** Frozen, so that its encoding is kept. HTTP sends the document's own JSON; RPCs encode its nodes. */
function toResponse({ rev, flows }: Revision): GetFlowsResponse {
  let nodes: Node[] | undefined;
  const response = create(GetFlowsResponseSchema, { rev });
  Object.defineProperty(response, "flows", { enumerable: true, get: () => (nodes ??= toNodes(flows.nodes)) });
  return Object.freeze(setEncodedField(response, "flows", flows.json));
}

const outcomes: Readonly<Record<DeploymentResult["outcome"], DeploymentOutcomeMessage>> = {
  running: DeploymentOutcomeMessage.RUNNING,
  failed: DeploymentOutcomeMessage.FAILED,
  crashed: DeploymentOutcomeMessage.CRASHED,
  pending: DeploymentOutcomeMessage.PENDING,
};

function measuredOutcome({ outcome }: Pick<DeploymentResult, "outcome">): DeploymentOutcome {
  return outcome === "running" ? "running" : "not_running";
}

/** Clients and proxies refuse responses whose headers are larger than 4 to 16 KB in all. */
const maxHeaderChars = 2_000;

/** As many of the names as fit into a header, where they are percent-encoded. */
function fitHeader(names: readonly string[]): string[] {
  let chars = 0;
  const excess = names.findIndex((name) => {
    chars += encodeURIComponent(name.toWellFormed()).length + ", ".length;
    return chars > maxHeaderChars;
  });
  return names.slice(0, excess === -1 ? undefined : excess);
}

/** What a committed deployment keeps of its caller's deadline to tell of it. */
const answerMs = 250;

/** Once it is committed, the caller had better learn of that in time than wait in vain for the runtime. */
function answerWithin(timeoutMs: number | undefined): number | undefined {
  return timeoutMs && timeoutMs - Math.min(answerMs, timeoutMs / 2);
}

function outcomeOf(error: unknown): DeploymentOutcome {
  // What is unavailable is the store.
  if (!(error instanceof FlowgateError) || error.reason === "unavailable") {
    return "error";
  }
  return error.reason === "version_mismatch" ? "conflict" : "refused";
}

type CommitOptions = Pick<FlowsServiceOptions, "store" | "prepare" | "decrypt"> &
  Pick<Revision, "by"> & {
    readonly trace: Context;
    readonly signal: AbortSignal;
    /** Called with the deployment's type, as soon as it is known. */
    readonly known: (type: DeploymentType) => void;
  };

async function commit(
  request: SetFlowsRequest,
  { store, prepare, decrypt, by, trace, signal, known }: CommitOptions,
): Promise<Revision> {
  let { credentials: current } = store.active();
  const { type, rev, outcome } = await prepare(request, current);
  known(type);
  // A body may have come too late.
  signal.throwIfAborted();
  if (outcome === undefined) {
    return inSpan(trace, "store.reload", {}, () => store.reload());
  }
  if (outcome instanceof Error) {
    throw outcome;
  }
  const { flows, given } = outcome;
  let { credentials } = outcome;
  for (;;) {
    const active = store.active();
    if (active.credentials !== current) {
      current = active.credentials;
      credentials = mergeCredentials({ ...given, flows: flows.nodes, current, decrypt });
    }
    const draft = { parent: rev ?? active.rev, deploymentType: type, by, flows, credentials };
    try {
      return await inSpan(trace, "store.commit", { "flowgate.deployment.type": type }, () =>
        store.commit(draft, signal),
      );
    } catch (error) {
      // A forced deployment has no revision to compare: it only lost a race, and another one won it.
      if (rev === undefined && error instanceof FlowgateError && error.reason === "version_mismatch") {
        continue;
      }
      throw error;
    }
  }
}
