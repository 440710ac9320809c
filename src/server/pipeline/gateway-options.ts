import type { GatewayOptions } from "@flowgate/gateway";
import { formatError } from "../http/error-response.ts";

/** The options that each gateway of the service has, which are part of the contract of its API. */
export const gatewayOptions = {
  errors: formatError,
  errorDomain: "flowgate",
  prototypeKeys: "reject",
} as const satisfies Partial<GatewayOptions>;
