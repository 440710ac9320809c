import type { DescService } from "@bufbuild/protobuf";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { reflectionServices } from "@flowgate/gateway/server";
import type { AccessRule } from "../auth/permissions.ts";
import type { AdminAuth } from "../auth/accounts.ts";
import type { Options } from "../options/parse.ts";
import type { ServerOptions } from "../server/options.ts";

/**
 * Protection against foreign web pages is needed for calls that are allowed without a token: those of anonymous clients,
 * and those with a client certificate, which browsers add automatically.
 */
export function browserSafety(
  { adminAuth, identity, tls, host, hosts }: Options,
  current: () => AdminAuth | undefined,
): ServerOptions["browserSafety"] {
  const isOpen = (adminAuth ?? identity) === undefined;
  return {
    checksTokens: !isOpen,
    hosts: tls === undefined ? [host, ...hosts] : undefined,
    exposure() {
      if (isOpen || (current()?.default?.permissions ?? []).length > 0) {
        return "anonymous";
      }
      return identity === undefined ? "none" : "workloads";
    },
  };
}

/** Access rules of the third-party services. Health is public, since probes have no token. */
export function accessToServer(reflection: Options["reflection"]): ReadonlyMap<DescService, AccessRule> {
  const reflectionRule: AccessRule = { kind: reflection === "open" ? "public" : "authenticated" };
  return new Map<DescService, AccessRule>([
    [Health, { kind: "public" }],
    ...reflectionServices.map((service) => [service, reflectionRule] as const),
  ]);
}
