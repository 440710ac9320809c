import * as z from "zod";
import type { Conflict } from "./access.ts";
import { flag, origin, port } from "./values.ts";

/** The port of the listener if only the editor is configured. */
export const editorPort = 1881;

export const nodeRed = z
  .strictObject({
    port: port
      .optional()
      .describe(
        "Port of Node-RED's admin API, for `node-red-admin` and other tools of Node-RED, on the same `host`. 0 selects a free port. Absent: 1881 with `nodeRed.editor`, otherwise it is not served.",
      ),
    editor: z
      .union([flag, z.literal("read-only")], "must be true, false or read-only")
      .default(false)
      .describe(
        "Whether Node-RED's editor is served on this port, from the package `@node-red/editor-client`, which is to be installed beside the service. `read-only`: nothing can be changed on this port, whatever the permissions of its users are.",
      ),
    url: origin
      .optional()
      .describe(
        "URL at which browsers reach the editor. With it and `adminAuth.signIn.url`, people sign in at the editor by the issuers with a `signIn`. Absent: they log in with a password.",
      ),
    catalogue: z
      .string("must be a URL")
      .refine((url) => /^https?:$/.test(URL.parse(url)?.protocol ?? ""), "must be an http or https URL")
      .optional()
      .describe(
        "URL of a list of modules that the editor offers to install, in the form of Node-RED's `catalogue.json`. Browsers load it. Absent: modules can be uploaded only.",
      ),
  })
  .prefault({});

type NodeRedOptions = {
  readonly nodeRed: z.output<typeof nodeRed>;
  readonly adminAuth?:
    | {
        readonly users: readonly unknown[];
        readonly issuers: readonly { readonly signIn?: unknown }[];
        readonly signIn?: { readonly url?: string | undefined } | undefined;
      }
    | undefined;
  readonly identity?: unknown;
};

/** Why the listener can't be used with the other options; its port is compared with the other ports elsewhere. */
export function* findNodeRedConflicts({ nodeRed, adminAuth, identity }: NodeRedOptions): Generator<Conflict> {
  const isOpen = adminAuth === undefined && identity === undefined;
  const isServed = nodeRed.port !== undefined || nodeRed.editor !== false;
  const { users = [], issuers = [], signIn } = adminAuth ?? {};
  if (nodeRed.url !== undefined && (nodeRed.editor === false || signIn?.url === undefined)) {
    yield ["nodeRed.url", "requires nodeRed.editor and adminAuth.signIn.url, by which people sign in at the editor"];
  }
  if (nodeRed.url !== undefined && nodeRed.url === signIn?.url) {
    yield ["nodeRed.url", "must be another origin than adminAuth.signIn.url: pages of the editor run code of modules"];
  }
  const isSignedInAt = nodeRed.url !== undefined && issuers.some((issuer) => issuer.signIn !== undefined);
  if (isServed && !isOpen && users.length === 0 && !isSignedInAt) {
    yield [
      "nodeRed.port",
      "requires adminAuth.users: Node-RED's tools log in with a name and a password. People can also sign in at the editor by adminAuth.issuers with a signIn, if nodeRed.url is set",
    ];
  }
}
