import { Code } from "@connectrpc/connect";

/** The code that stands for the status of a response that no call has made; undefined: success. */
export function codeOfStatus(status: number): Code | undefined {
  return status < 400 ? undefined : (codes[status] ?? (status < 500 ? Code.InvalidArgument : Code.Internal));
}

/** As google/rpc/code.proto maps them, and the nearest where it has none. */
const codes: Readonly<Record<number, Code>> = {
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  405: Code.Unimplemented,
  408: Code.DeadlineExceeded,
  409: Code.Aborted,
  412: Code.FailedPrecondition,
  413: Code.ResourceExhausted,
  429: Code.ResourceExhausted,
  431: Code.ResourceExhausted,
  501: Code.Unimplemented,
  503: Code.Unavailable,
  504: Code.DeadlineExceeded,
  505: Code.Unimplemented,
};
