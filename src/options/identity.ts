import * as z from "zod";
import { isSpiffePattern } from "../auth/spiffe.ts";
import { permissions } from "./permissions.ts";
import { rejectDuplicates, text } from "./values.ts";

export const tls = z.strictObject({
  certFile: text.describe("The certificate followed by its chain, in PEM format."),
  keyFile: text.describe("The private key of the certificate, in PEM format, without a passphrase."),
  clientCaFile: text
    .optional()
    .describe(
      "The only trusted authorities of client certificates, in PEM format. Required if clients present certificates.",
    ),
  clientCertificate: z
    .enum(["none", "request", "require"], "must be one of: none, request, require")
    .default("none")
    .describe(
      "Whether clients present a certificate (mTLS). One that is presented must be valid, also if none is required.",
    ),
  minVersion: z
    .enum(["TLSv1.2", "TLSv1.3"], "must be one of: TLSv1.2, TLSv1.3")
    .default("TLSv1.2")
    .describe("The minimum TLS version."),
});

const identityRule = z.strictObject({
  id: z
    .string("must be a SPIFFE ID")
    .refine(
      isSpiffePattern,
      "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*",
    )
    .describe("A SPIFFE ID, or a prefix that ends in `/*`. The most specific rule applies."),
  permissions: permissions.describe("The permissions of the workload, in the same form as a user's."),
});

export const identity = z.strictObject({
  source: z
    .enum(["certificate", "forwarded"], "must be one of: certificate, forwarded")
    .describe(
      "Where the SPIFFE ID comes from: `certificate` is the client certificate, `forwarded` is X-Forwarded-Client-Cert of `trustedProxies`.",
    ),
  rules: z
    .array(identityRule, "must be a list of rules")
    .min(1, "must have at least one rule")
    .superRefine((rules, context) => rejectDuplicates(rules, "id", "rules", context))
    .readonly()
    .describe("The permissions of workloads."),
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
