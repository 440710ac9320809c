import { type CallContext, kHttpStatus } from "../../../call/context.ts";
import { hasContent, isSuccess, type Variant } from "../../../routing/route.ts";

/** The status of a successful response, and whether it has a body. Throws a RangeError for an invalid status of the implementation. */
export function successOf(context: CallContext, variant: Variant): Pick<Variant, "status" | "hasBody"> {
  const status = context.existingValue(kHttpStatus);
  if (status === undefined) {
    return variant;
  }
  if (!isSuccess(status)) {
    throw new RangeError(
      `kHttpStatus must be an integer from 200 to 399, not ${status}; throw a ConnectError to fail the call`,
    );
  }
  return { status, hasBody: variant.hasBody && hasContent(status) };
}

/** The status of a response that is a stream of messages. Throws a RangeError for a status that has no body. */
export function streamStatusOf(context: CallContext, variant: Variant): number {
  const { status, hasBody } = successOf(context, variant);
  if (!hasBody) {
    throw new RangeError(`kHttpStatus of a stream can't be ${status}, which has no body`);
  }
  return status;
}
