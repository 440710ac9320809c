import * as z from "zod";
import { oneOf, text, wholeNumber } from "./values.ts";

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
  clientCertificate: oneOf(["none", "request", "require"])
    .default("none")
    .describe(
      "Client certificates (mTLS): `none`, `request` or `require`. An invalid certificate is rejected with `request` too.",
    ),
  minVersion: oneOf(["TLSv1.2", "TLSv1.3"])
    .default("TLSv1.2")
    .describe("Minimum version of TLS: `TLSv1.2` or `TLSv1.3`."),
});

export const cors = z.strictObject({
  origins: z
    .array(
      z
        .string("must be an origin")
        .refine(
          isOrigin,
          'must be "*" or an origin in the form of the Origin header, such as https://app.example, without a path',
        ),
      "must be a list of origins",
    )
    .min(1, "must name at least one origin")
    .readonly()
    .describe('Origins such as `https://app.example`. `"*"` permits every origin.'),
  maxAgeSeconds: wholeNumber(0, 86_400)
    .default(600)
    .describe("How long browsers may cache the response to a preflight request."),
});

/** True if a text is a serialized origin. Origins of other schemes, such as browser extensions, have no port. */
export function isOrigin(text: string): boolean {
  return /^https?:/.test(text)
    ? URL.parse(text)?.origin === text && !text.includes("*")
    : text === "*" || /^[a-z][a-z\d+.-]*:\/\/[\w.-]+$/.test(text);
}
