import { join, resolve } from "node:path";
import * as z from "zod";
import { isWithin } from "../runtime/folders.ts";
import type { Conflict } from "./access.ts";
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
    exposedHeaders: names.optional().describe("Response headers that they may read, besides the usual ones."),
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
        "Serves `runtime.port` over TLS only. Changed files are loaded without a restart. Flows can read the key in their memory: use another one than that of `tls`. Absent: no TLS.",
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

/** Folders that would show secrets of the service, and to flows too. */
export function* findFlowHttpConflicts(options: HttpPaths): Generator<Conflict> {
  const { dataDir, runtime } = options;
  const { http } = runtime;
  const secrets = findSecrets(options);
  if (http.static.length === 0) {
    return;
  }
  const dir = resolve(runtime.dir ?? join(dataDir, "runtime"));
  const data = resolve(dataDir);
  for (const [at, { path }] of http.static.entries()) {
    const folder = resolve(path);
    const showsData = isWithin(folder, data) || (isWithin(data, folder) && !isWithin(dir, folder));
    if (showsData || secrets.some((secret) => isWithin(folder, resolve(secret)))) {
      yield [
        `runtime.http.static.${at}.path`,
        "would show files of the service: choose a folder outside of dataDir without keys, or one in runtime.dir",
      ];
    }
  }
}

/** The files of the service with secrets that can be outside of its directory. */
function findSecrets({ store, tls, runtime, modules, adminAuth }: HttpPaths): string[] {
  const database = store?.startsWith("sqlite:") === true ? store.slice("sqlite:".length) : undefined;
  const ofIssuers = adminAuth?.issuers.map(({ signIn }) => signIn?.clientSecretFile) ?? [];
  const files = [database, tls?.keyFile, runtime.http.tls?.keyFile, modules.npmrc, ...ofIssuers];
  return files.filter((path) => path !== undefined);
}

type HttpPaths = {
  readonly dataDir: string;
  readonly store?: string | undefined;
  readonly tls?: { readonly keyFile: string } | undefined;
  readonly modules: { readonly npmrc?: string | undefined };
  readonly adminAuth?:
    | {
        readonly issuers: readonly {
          readonly signIn?: { readonly clientSecretFile?: string | undefined } | undefined;
        }[];
      }
    | undefined;
  readonly runtime: { readonly dir?: string | undefined; readonly http: z.output<typeof flowHttp> };
};
