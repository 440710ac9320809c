import { FlowgateError, type Reason } from "../errors.ts";
import { RequestError } from "@flowgate/transcoding";

/** An error that a caller can act on, as it is sent between threads, which keep no classes. */
export type SentError =
  | { readonly kind: "flowgate"; readonly reason: Reason; readonly message: string }
  | ({ readonly kind: "fault" } & Pick<RequestError, "status" | "reason" | "message" | "headers" | "repeatsInput">);

/** Rethrows any other error. */
export function toSentError(error: unknown): SentError {
  if (error instanceof FlowgateError) {
    return { kind: "flowgate", reason: error.reason, message: error.message };
  }
  if (error instanceof RequestError) {
    const { status, reason, message, headers, repeatsInput } = error;
    return { kind: "fault", status, reason, message, headers, repeatsInput };
  }
  throw error;
}

export function fromSentError(sent: SentError): Error {
  return sent.kind === "flowgate"
    ? new FlowgateError(sent.reason, sent.message)
    : new RequestError(sent.status, sent.reason, sent.message, sent);
}
