import type { ContextValues } from "@connectrpc/connect";
import { adapterOptionChecks } from "../options/adapter-checks.ts";
import { checkOptions, type ChecksOf, type OptionChecks } from "../options/check-options.ts";
import { gatewayOptionChecks } from "../options/option-checks.ts";
import type { GatewayOptions } from "../options/options.ts";
import type { Gateway } from "../gateway.ts";

/** The options of an adapter for a server or framework. `Context` are the arguments that the server passes with a request. */
export type AdapterOptions<Context extends readonly unknown[]> = GatewayOptions & {
  /** Creates the context values of a request's call, as the option of Connect's adapters does. Default: empty ones. */
  contextValues?: (...context: Context) => ContextValues;
  /**
   * Whether a request with the path of no RPC and no REST route is rejected with 404, or passed on to the application. Another method
   * of a known path is 405 in both cases. Default: "reject".
   */
  unknownPath?: "reject" | "pass";
};

type OwnOptions = Omit<AdapterOptions<never>, keyof GatewayOptions>;

const ownOptionChecks: ChecksOf<OwnOptions> = adapterOptionChecks;

/**
 * Creates the gateway of an adapter, by `create`. Throws an Error that names the option which is unknown, missing or has a wrong value.
 * `more` are the checks of options that only this adapter has.
 */
export function createAdapterGateway(
  create: (options: GatewayOptions) => Gateway,
  options: AdapterOptions<never>,
  more: OptionChecks = {},
): Gateway {
  checkOptions(options, { ...gatewayOptionChecks, ...ownOptionChecks, ...more });
  const ofGateway = Object.entries(options).filter(([name]) => Object.hasOwn(gatewayOptionChecks, name));
  return create(Object.fromEntries(ofGateway) as GatewayOptions);
}
