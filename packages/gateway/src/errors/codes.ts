import { Code } from "@connectrpc/connect";

/** The mapping of google/rpc/code.proto. */
const statuses: ReadonlyMap<Code, number> = new Map([
  [Code.Canceled, 499],
  [Code.Unknown, 500],
  [Code.InvalidArgument, 400],
  [Code.DeadlineExceeded, 504],
  [Code.NotFound, 404],
  [Code.AlreadyExists, 409],
  [Code.PermissionDenied, 403],
  [Code.ResourceExhausted, 429],
  [Code.FailedPrecondition, 400],
  [Code.Aborted, 409],
  [Code.OutOfRange, 400],
  [Code.Unimplemented, 501],
  [Code.Internal, 500],
  [Code.Unavailable, 503],
  [Code.DataLoss, 500],
  [Code.Unauthenticated, 401],
]);

/**
 * The inverse mapping, and the codes of other statuses. Unlisted ones are InvalidArgument below 500, and Internal
 * otherwise.
 */
const codes: ReadonlyMap<number, Code> = new Map([
  [401, Code.Unauthenticated],
  [403, Code.PermissionDenied],
  [404, Code.NotFound],
  [405, Code.Unimplemented],
  [408, Code.DeadlineExceeded],
  [409, Code.Aborted],
  [412, Code.FailedPrecondition],
  [413, Code.ResourceExhausted],
  [429, Code.ResourceExhausted],
  [431, Code.ResourceExhausted],
  [499, Code.Canceled],
  [501, Code.Unimplemented],
  [503, Code.Unavailable],
  [504, Code.DeadlineExceeded],
  [505, Code.Unimplemented],
]);

/** The HTTP status of an RPC code; 500 for a number that is not a gRPC code, which a remote service could send. */
export function statusOfCode(code: Code): number {
  return statuses.get(code) ?? 500;
}

/** The RPC code of an HTTP error status (400 to 599) that did not come from an RPC. */
export function codeOfStatus(status: number): Code {
  return codes.get(status) ?? (status < 500 ? Code.InvalidArgument : Code.Internal);
}

/** The name of a code in google/rpc/code.proto: "INVALID_ARGUMENT" for Code.InvalidArgument. */
export function protoNameOfCode(code: Code): string {
  return code === Code.Canceled ? "CANCELLED" : nameOfCode(code).toUpperCase();
}

/** The name of a code in snake case: "invalid_argument" for Code.InvalidArgument. */
export function nameOfCode(code: Code): string {
  return (Code[code] ?? "Unknown").replaceAll(/(?<!^)([A-Z])/g, "_$1").toLowerCase();
}
