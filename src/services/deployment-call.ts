import type { HandlerContext } from "@connectrpc/connect";
import { OnFailure } from "../../gen/flowgate/v1/flows_pb.ts";
import { callerOf, originOf } from "../auth/origin.ts";
import { headerConditions, revCondition } from "../deployments/conditions.ts";
import type { DeploymentCall } from "../deployments/call.ts";
import type { ObservedCall } from "../deployments/observed-deployer.ts";
import { FlowgateError } from "../errors.ts";
import type { DeploymentFields } from "../flows/prepare.ts";
import { traceKey } from "../telemetry/trace.ts";
import { parseMessage } from "./revision-text.ts";

const defaultUndoWaitSeconds = 10;
const maxWaitSeconds = 600;
const maxKeyChars = 255;

/** Validates the common fields. `rev` is the revision that must be active; undefined: any. */
export function readDeploymentCall(
  fields: DeploymentFields,
  rev: string | undefined,
  context: HandlerContext,
): DeploymentCall & ObservedCall {
  const origin = originOf(context);
  const undoOnFailure = fields.onFailure === OnFailure.UNDO;
  const waitSeconds = fields.wait ?? (undoOnFailure ? defaultUndoWaitSeconds : 0);
  if (waitSeconds > maxWaitSeconds) {
    throw new FlowgateError("invalid_argument", `wait: must be at most ${maxWaitSeconds} seconds`);
  }
  const { idempotencyKey: key } = fields;
  if (key !== undefined && (key === "" || key.length > maxKeyChars)) {
    throw new FlowgateError("invalid_argument", `idempotency key: must have 1 to ${maxKeyChars} characters`);
  }
  // Two headers are joined to one value by Node, and may be by proxies (RFC 9110, section 5.3).
  if (origin.protocol === "rest" && key?.includes(",") === true) {
    throw new FlowgateError("invalid_argument", "Idempotency-Key: must be a single key, without a comma");
  }
  const startMs = performance.now();
  const timeoutMs = runtimeTimeoutMs(context.timeoutMs());
  return {
    origin,
    conditions: origin.protocol === "rest" ? headerConditions(rev, context.requestHeader) : revCondition(rev),
    message: parseMessage(fields.message, origin.protocol),
    idempotencyKey: key,
    waitMs: waitSeconds === 0 && !undoOnFailure ? undefined : waitSeconds * 1000,
    undoOnFailure,
    merge: fields.merge ?? false,
    ...callerOf(context),
    untilMs: timeoutMs && startMs + timeoutMs,
    trace: context.values.get(traceKey),
    startMs,
  };
}

/** The part of the caller's deadline that is reserved for sending the response. */
const responseMs = 250;

/**
 * How long a call waits for the runtime. It ends before the caller's deadline, so that the caller gets the revision of the
 * deployment that is committed already.
 */
export function runtimeTimeoutMs(timeoutMs: number | undefined): number | undefined {
  return timeoutMs && timeoutMs - Math.min(responseMs, timeoutMs / 2);
}
