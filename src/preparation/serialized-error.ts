import { FlowgateError, type Reason } from "../errors.ts";
import { RequestError } from "@flowgate/gateway";

/** An error that a caller can act on, in a form that can be sent between threads, since cloning drops classes. */
export type SerializedError =
  | { readonly kind: "flowgate"; readonly reason: Reason; readonly message: string }
  | ({ readonly kind: "request" } & Pick<RequestError, "status" | "reason" | "message" | "headers" | "repeatsInput">);

/** Rethrows errors of other classes. */
export function serializeError(error: unknown): SerializedError {
  if (error instanceof FlowgateError) {
    return { kind: "flowgate", reason: error.reason, message: error.message };
  }
  if (error instanceof RequestError) {
    const { status, reason, message, headers, repeatsInput } = error;
    return { kind: "request", status, reason, message, headers, repeatsInput };
  }
  throw error;
}

export function deserializeError(error: SerializedError): Error {
  return error.kind === "flowgate"
    ? new FlowgateError(error.reason, error.message)
    : new RequestError(error.status, error.reason, error.message, error);
}
