import * as z from "zod";
import { isSpiffePattern } from "../auth/workload.ts";
import { permissions } from "./permissions.ts";
import type { tls } from "./tls.ts";
import { rejectDuplicates } from "./values.ts";

const identityRule = z.strictObject({
  id: z
    .string("must be a SPIFFE ID")
    .refine(
      isSpiffePattern,
      "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*",
    )
    .describe("A SPIFFE ID, or a prefix followed by `/*`. The most specific matching rule applies."),
  permissions: permissions.describe("In the same form as the permissions of a user."),
});

export const identity = z.strictObject({
  source: z
    .enum(["certificate", "forwarded"], "must be one of: certificate, forwarded")
    .describe(
      "Where the SPIFFE ID is read from: `certificate` is the client certificate of the connection, `forwarded` the X-Forwarded-Client-Cert header set by `trustedProxies`.",
    ),
  rules: z
    .array(identityRule, "must be a list of rules")
    .min(1, "must have at least one rule")
    .superRefine((rules, context) => rejectDuplicates(rules, "id", "rules", context))
    .readonly()
    .describe("Permissions by SPIFFE ID."),
});

/** Checks the combination of options that identify workloads. */
export function checkIdentity({ tls, trustedProxies, identity }: IdentityOptions, context: z.RefinementCtx): void {
  const hasClientCertificates = tls !== undefined && tls.clientCertificate !== "none";
  const reject = (path: string[], message: string): void => context.addIssue({ code: "custom", path, message });
  if (hasClientCertificates && tls.clientCaFile === undefined) {
    reject(["tls", "clientCaFile"], "is missing: it is required to verify client certificates");
  }
  if (tls?.clientCaFile !== undefined && !hasClientCertificates) {
    reject(["tls", "clientCaFile"], 'has no effect unless tls.clientCertificate is "request" or "require"');
  }
  if (identity?.source === "certificate" && !hasClientCertificates) {
    reject(["identity", "source"], 'requires client certificates: set tls.clientCertificate to "request" or "require"');
  }
  if (identity?.source === "forwarded" && trustedProxies.length === 0) {
    reject(["identity", "source"], "requires trustedProxies: other clients could forge the header");
  }
}

type IdentityOptions = {
  readonly tls?: z.output<typeof tls> | undefined;
  readonly trustedProxies: readonly string[];
  readonly identity?: z.output<typeof identity> | undefined;
};
