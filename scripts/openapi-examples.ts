import type { Examples } from "@flowgate/gateway";
import { accounts } from "./openapi-examples/accounts.ts";
import { flows } from "./openapi-examples/flows.ts";
import { modules } from "./openapi-examples/modules.ts";
import { proposals } from "./openapi-examples/proposals.ts";
import { records } from "./openapi-examples/records.ts";
import { revisions } from "./openapi-examples/revisions.ts";
import { runtime } from "./openapi-examples/runtime.ts";

/**
 * The examples of the operations. Tests validate each of them against its schema, and compare it with what the service answers. The
 * names of examples for one value of Service-API-Version start with it: the documentation page selects them by it.
 */
export const examples: Examples = {
  ...accounts,
  ...flows,
  ...modules,
  ...proposals,
  ...records,
  ...revisions,
  ...runtime,
};
