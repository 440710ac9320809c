import type { NodeCredentials } from "../../gen/flowgate/v1/flows_pb.ts";
import { at, type Fault } from "./fault.ts";
import { findKeyFault, findTextFault } from "./json-fault.ts";

/** Faults of credentials name their names, never their values. */
export function findCredentialsFault({ values }: NodeCredentials): Fault | undefined {
  for (const [name, value] of Object.entries(values)) {
    const fault = findKeyFault(name) ?? at(name, findTextFault(value));
    if (fault !== undefined) {
      return fault;
    }
  }
  return undefined;
}
