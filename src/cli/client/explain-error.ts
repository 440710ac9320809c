import { Code, ConnectError } from "@connectrpc/connect";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Connection } from "./connection.ts";

/** Converts the error of a call to a failure that says what to do. Other errors are returned as they are. */
export function explainError(error: unknown, { server }: Connection): unknown {
  if (!(error instanceof ConnectError)) return error;
  const { rawMessage } = error;
  switch (error.code) {
    case Code.Unauthenticated:
      return new CliFailure(`${server} requires a valid token: log in with flowgate login.`, { cause: error });
    case Code.Aborted:
    case Code.FailedPrecondition:
      return new CliFailure(rawMessage, { exitCode: exitCodes.conflict, cause: error });
    default:
      return new CliFailure(`${server}: ${rawMessage}`, { cause: error });
  }
}
