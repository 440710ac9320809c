import * as z from "zod";
import { isOrigin } from "./connections.ts";
import { flag, isWildcardPath, listOf, oneOf, passwordHash, text, wholeNumber } from "./values.ts";

const root = z
  .string("must be text")
  .regex(/^\/(?:[\w.~-]+(?:\/[\w.~-]+)*)?$/, "must be a path such as /api, without a slash at the end");

const user = z.strictObject({
  username: text.regex(/^[^:\p{Cc}]+$/u, "must not contain a colon").describe("Name of the user."),
  password: passwordHash.describe("The argon2id or bcrypt hash of the password, never the password itself."),
});

const names = listOf(text.regex(/^[\w-]+$/, "must be a name"), "names");

const cors = z
  .strictObject({
    origins: z
      .array(
        z
          .string("must be an origin")
          .refine(isOrigin, 'must be "*" or an origin in the form of the Origin header, such as https://app.example'),
        "must be a list of origins",
      )
      .min(1, "must name at least one origin")
      .readonly()
      .describe('Origins such as `https://app.example`. `"*"` permits every origin.'),
    methods: names
      .default(["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE"])
      .describe("Methods that these pages may use."),
    allowedHeaders: names.optional().describe("Request headers that they may send. Absent: all."),
    exposedHeaders: names
      .optional()
      .describe("Response headers that these pages may read, in addition to the CORS-safelisted ones."),
    credentials: flag
      .default(false)
      .describe('Whether browsers send their cookies and passwords with these requests. Not with `"*"`.'),
    maxAgeSeconds: wholeNumber(0, 86_400)
      .optional()
      .describe("How long browsers may cache the response to a preflight request. Absent: as long as they do."),
  })
  .refine(({ origins, credentials }) => !credentials || !origins.includes("*"), {
    path: ["credentials"],
    message: 'is not possible with "*" in origins: list the origins',
  });

const folder = z.strictObject({
  path: text
    .refine((path) => !isWildcardPath(path), 'must be a path without "*"')
    .describe("Folder of the files. Flows can read it. Files whose names begin with a dot are not served."),
  root: root.default("/").describe("Path below which they are served."),
  maxAgeSeconds: wholeNumber(0, 31_536_000).default(0).describe("How long browsers may keep a file without asking."),
  cors: cors.optional().describe("Web pages of other origins that may read the files. Absent: none."),
});

export const flowHttp = z
  .strictObject({
    root: root
      .default("/")
      .describe("Path below which HTTP-in nodes, WebSockets and dashboards are served, as Node-RED's `httpNodeRoot`."),
    auth: user
      .optional()
      .describe(
        "Requires this name and password (HTTP Basic) of requests below `root`, and of all WebSockets. Absent: no password.",
      ),
    cors: cors
      .optional()
      .describe("Web pages of other origins that may read responses of HTTP-in nodes. Absent: none."),
    tls: z
      .strictObject({
        certFile: text.describe("Certificate chain in PEM format, as `tls.certFile`."),
        keyFile: text.describe("Private key of the certificate, as `tls.keyFile`."),
        minVersion: oneOf(["TLSv1.2", "TLSv1.3"])
          .default("TLSv1.2")
          .describe("Minimum version of TLS: `TLSv1.2` or `TLSv1.3`."),
      })
      .optional()
      .describe(
        "Serves `runtime.port` over TLS only. Changed files are loaded without a restart. Flows can read the key in their memory: use a different key than in `tls`. Absent: no TLS.",
      ),
    static: z
      .array(folder, "must be a list of folders")
      .max(100, "must have at most 100 folders")
      .readonly()
      .default([])
      .describe("Folders whose files are served on `runtime.port`, where no HTTP-in node responds."),
    staticAuth: user.optional().describe("Requires this name and password of requests for files. Absent: no password."),
  })
  .prefault({});
