import * as z from "zod";
import { text } from "./values.ts";

export const tls = z.strictObject({
  certFile: text.describe(
    "Certificate chain in PEM format: the server's certificate first, then the intermediate certificates.",
  ),
  keyFile: text.describe("Private key of the certificate in PEM format, without a passphrase."),
  clientCaFile: text
    .optional()
    .describe(
      "CA certificates in PEM format. Client certificates must be issued by one of them. Required unless `clientCertificate` is `none`.",
    ),
  clientCertificate: z
    .enum(["none", "request", "require"], "must be one of: none, request, require")
    .default("none")
    .describe(
      "Client certificates (mTLS): `none`, `request` or `require`. An invalid certificate is rejected with `request` too.",
    ),
  minVersion: z
    .enum(["TLSv1.2", "TLSv1.3"], "must be one of: TLSv1.2, TLSv1.3")
    .default("TLSv1.2")
    .describe("Minimum version of TLS: `TLSv1.2` or `TLSv1.3`."),
});
