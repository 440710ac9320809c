import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Interceptor } from "@connectrpc/connect";

const failed = new WeakMap<object, DescMethod>();

/** Records which call an error belongs to. */
export const noteCall: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    if (typeof error === "object" && error !== null) {
      failed.set(error, request.method);
    }
    throw error;
  }
};

/** Whether the call that failed with this error would have changed something. */
export function isChange(error: object): boolean {
  const method = failed.get(error);
  return method !== undefined && changesServer(method);
}

export function changesServer({ idempotency }: DescMethod): boolean {
  return idempotency === MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
}
