import * as z from "zod";
import { isSpiffePattern } from "../auth/spiffe.ts";
import { permissions } from "./permissions.ts";
import { refuseRepeated, text } from "./values.ts";

export const tls = z.strictObject({
  certFile: text.describe("The certificate, and behind it those that lead to its authority, in PEM form."),
  keyFile: text.describe("The certificate's key, in PEM form and without a passphrase."),
  clientCaFile: text
    .optional()
    .describe(
      "The authorities of client certificates, in PEM form. No others are trusted. Needed where clients show one.",
    ),
  clientCertificate: z
    .enum(["none", "request", "require"], "must be one of: none, request, require")
    .default("none")
    .describe(
      "Whether clients show a certificate (mTLS). One that is shown must be good, also where none is required.",
    ),
  minVersion: z
    .enum(["TLSv1.2", "TLSv1.3"], "must be one of: TLSv1.2, TLSv1.3")
    .default("TLSv1.2")
    .describe("The oldest version of TLS that is spoken."),
});

const identityRule = z.strictObject({
  id: z
    .string("must be a SPIFFE ID")
    .refine(
      isSpiffePattern,
      "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*",
    )
    .describe(
      "Whose: a SPIFFE ID, or one that ends in `/*` for all that begin like it. The most specific rule counts.",
    ),
  permissions: permissions.describe("What it may do; written as a user's."),
});

export const identity = z.strictObject({
  source: z
    .enum(["certificate", "forwarded"], "must be one of: certificate, forwarded")
    .describe(
      "Whose word counts: `certificate` is the client's own certificate, `forwarded` the X-Forwarded-Client-Cert of `trustedProxies`.",
    ),
  rules: z
    .array(identityRule, "must be a list of rules")
    .min(1, "must have at least one rule")
    .superRefine((rules, context) => refuseRepeated(rules, "id", "rules", context))
    .readonly()
    .describe("What workloads may do."),
});

/** What makes sense only together: who may vouch for a workload. */
export function checkIdentity({ tls, trustedProxies, identity }: IdentityOptions, context: z.RefinementCtx): void {
  const shown = tls !== undefined && tls.clientCertificate !== "none";
  const refuse = (path: string[], message: string): void => context.addIssue({ code: "custom", path, message });
  if (shown && tls.clientCaFile === undefined) {
    refuse(["tls", "clientCaFile"], "is missing: it says whose client certificates are good");
  }
  if (tls?.clientCaFile !== undefined && !shown) {
    refuse(["tls", "clientCaFile"], 'is for nothing, unless tls.clientCertificate is "request" or "require"');
  }
  if (identity?.source === "certificate" && !shown) {
    refuse(["identity", "source"], 'needs client certificates: set tls.clientCertificate to "request" or "require"');
  }
  if (identity?.source === "forwarded" && trustedProxies.length === 0) {
    refuse(["identity", "source"], "needs trustedProxies: from others than them anyone could claim to be anyone");
  }
}

type IdentityOptions = {
  readonly tls?: z.output<typeof tls> | undefined;
  readonly trustedProxies: readonly string[];
  readonly identity?: z.output<typeof identity> | undefined;
};
