import type { HandlerContext } from "@connectrpc/connect";
import { OnFailure } from "../../gen/flowgate/v1/flows_pb.ts";
import type { Approvals } from "../auth/approvals.ts";
import { callerOf, originOf, peerKey, principalKey } from "../auth/caller.ts";
import { insufficientScope } from "../auth/errors.ts";
import { allows } from "../auth/permissions.ts";
import { tabAccessKey } from "../auth/tab-access.ts";
import type { Caller } from "@flowgate/base/shared-threads";
import type { Change, DeploymentCall } from "../deployments/deployment.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import {
  type CredentialSets,
  type CurrentCredentials,
  type Decrypt,
  mergeCredentials,
  findTypes,
} from "@flowgate/flows";
import { encodeSets } from "../deployments/proposal.ts";
import type { Preparation } from "../deployments/preparation/preparation.ts";
import type {
  DeploymentFields,
  FlowsRequest,
  PreparedDeployment,
  PreparedOutcome,
} from "../deployments/preparation/prepare-deployment.ts";
import { parseWanted } from "@flowgate/runtime/modules";
import { traceKey } from "../telemetry/trace.ts";
import { assertSingleKey, decodeHeaderText, readConditions } from "./rest.ts";

/** If the request says what happens to flows that fail, or when they do. */
const defaultWaitSeconds = 10;
const maxWaitSeconds = 600;
const maxKeyChars = 255;

/**
 * Validates the common fields. `rev` is the revision that must be active; undefined: any. `approvals` are the rules for
 * changes that need a second person; undefined: the deployment itself is only proposed.
 */
export function readDeploymentCall(
  fields: DeploymentFields,
  rev: string | undefined,
  context: HandlerContext,
  approvals: Approvals | undefined,
): DeploymentCall {
  const undoOnFailure = fields.onFailure === OnFailure.UNDO;
  const { maxErrors } = fields;
  const waitSeconds = fields.wait ?? (undoOnFailure || maxErrors !== undefined ? defaultWaitSeconds : 0);
  if (waitSeconds > maxWaitSeconds) {
    throw new FlowgateError("invalid_argument", `wait: must be at most ${maxWaitSeconds} seconds`);
  }
  if (maxErrors !== undefined && waitSeconds === 0) {
    throw new FlowgateError(
      "invalid_argument",
      "max errors: can't be set with a wait of 0 seconds, in which no errors are counted",
    );
  }
  const { idempotencyKey: key } = fields;
  if (key !== undefined && (key === "" || key.length > maxKeyChars)) {
    throw new FlowgateError("invalid_argument", `idempotency key: must have 1 to ${maxKeyChars} characters`);
  }
  assertSingleKey(key, context);
  const startMs = performance.now();
  const timeoutMs = runtimeTimeoutMs(context.timeoutMs());
  const authorize = createAuthorization(context, approvals);
  return {
    origin: originOf(context),
    conditions: readConditions(rev, context),
    authorize,
    assertMayInstall(isRestored) {
      // What was installed before is a part of undoing a deployment, unless tabs run with it that the caller may not change alone.
      if (!(isRestored && authorize === undefined)) {
        requireInstallPermission(context);
      }
    },
    message: parseMessage(decodeHeaderText(fields.message, context)),
    idempotencyKey: key,
    waitMs: waitSeconds === 0 && !undoOnFailure ? undefined : waitSeconds * 1000,
    undoOnFailure,
    maxErrors: maxErrors ?? 0,
    merge: fields.merge ?? false,
    ...callerOf(context),
    untilMs: timeoutMs && startMs + timeoutMs,
    trace: context.values.get(traceKey),
    startMs,
  };
}

/** Throws if the caller may not install modules. */
export function requireInstallPermission({ values, requestHeader }: HandlerContext): void {
  if (!allows(values.get(principalKey).permissions, "modules.write")) {
    throw insufficientScope("modules.write", requestHeader.has("authorization"));
  }
}

/** Returns the check of the caller's changes; undefined: all are permitted. */
export function createAuthorization(
  { values }: Pick<HandlerContext, "values">,
  approvals: Approvals | undefined,
): DeploymentCall["authorize"] {
  const access = values.get(tabAccessKey);
  const findUnapproved = approvals?.checkFor(values.get(principalKey).permissions);
  return access === undefined && findUnapproved === undefined
    ? undefined
    : (changed) => {
        access?.assertPermitted(changed);
        return findUnapproved?.(changed);
      };
}

/** The part of the caller's deadline that is reserved for sending the response. */
const responseMs = 250;

/**
 * The time a call waits for the runtime. It ends before the caller's deadline, so that the caller gets the revision of
 * the committed deployment.
 */
export function runtimeTimeoutMs(timeoutMs: number | undefined): number | undefined {
  return timeoutMs && timeoutMs - Math.min(responseMs, timeoutMs / 2);
}

/** Prepares a request. Its memory is held until its flows are decoded, also if its client disconnects before. */
export async function prepareRequest(
  preparation: Pick<Preparation, "prepare">,
  request: FlowsRequest,
  current: CurrentCredentials,
  context: HandlerContext,
  caller: Caller,
): Promise<PreparedDeployment> {
  const peer = context.values.get(peerKey);
  const release = peer.retainMemory?.();
  try {
    const prepared = await preparation.prepare(request, current, caller);
    const { outcome } = prepared;
    peer.documentDecoded?.(outcome.kind === "flows" ? outcome.flows.json.length : 0);
    return prepared;
  } finally {
    release?.();
  }
}

/** The change that a prepared request makes. `current` are the credentials that it was prepared with. */
export function toChange(
  { type, rev, modules: named }: Pick<PreparedDeployment, "type" | "rev" | "modules">,
  outcome: Exclude<PreparedOutcome, { kind: "reload" }>,
  current: CredentialSets,
  decrypt: Decrypt,
): Change {
  if (outcome.kind === "rejected") {
    // Thrown when the change is applied: the conditions of the request come first, and so does the result of its first attempt.
    const apply = (): never => {
      throw outcome.error;
    };
    return { cause: "deployment", deploymentType: type, apply, identity: () => [] };
  }
  const { flows, submitted } = outcome;
  const modules = parseWanted(named);
  return {
    cause: "deployment",
    deploymentType: type,
    apply(active) {
      // Another deployment may have changed the credentials during the preparation.
      const credentials =
        active.credentials === current
          ? outcome.credentials
          : mergeCredentials({
              ...submitted,
              findTypes: (ids) => findTypes(flows, ids),
              current: active.credentials,
              decrypt,
            });
      return { flows, credentials, submitted, modules };
    },
    identity: () => [
      rev ?? "",
      flows.json,
      JSON.stringify(Array.from(submitted.inline, ([id, set]) => [id, [...set]])),
      submitted.topLevel === undefined ? "" : encodeSets(submitted.topLevel),
      ...(modules.length === 0 ? [] : [JSON.stringify(modules)]),
    ],
  };
}

export const maxMessageChars = 1_000;

/** Validates the message of a revision, or another comment, which `field` names; undefined: it is empty. */
export function parseMessage(message: string, field = "message"): string | undefined {
  if (message.length > maxMessageChars) {
    throw new FlowgateError("invalid_argument", `${field}: must have at most ${maxMessageChars} characters`);
  }
  if (!message.isWellFormed()) {
    throw new FlowgateError("invalid_argument", `${field}: must be valid Unicode, without lone surrogates`);
  }
  return message === "" ? undefined : message;
}
