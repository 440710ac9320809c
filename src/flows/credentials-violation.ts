import type { NodeCredentials } from "../../gen/flowgate/v1/flows_pb.ts";
import { prependKeyIfFound, type Violation } from "./violation.ts";
import { findKeyViolation, findTextViolation } from "./json-violation.ts";

/** Violations contain the names of credentials, never their values. */
export function findCredentialsViolation({ values }: NodeCredentials): Violation | undefined {
  for (const [name, value] of Object.entries(values)) {
    const violation = findKeyViolation(name) ?? prependKeyIfFound(name, findTextViolation(value));
    if (violation !== undefined) {
      return violation;
    }
  }
  return undefined;
}
