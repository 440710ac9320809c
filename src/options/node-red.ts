import * as z from "zod";
import type { Conflict } from "./access.ts";
import { flag, port } from "./values.ts";

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
  readonly adminAuth?: { readonly users: readonly unknown[] } | undefined;
  readonly identity?: unknown;
};

/** Why the listener can't be used with the other options; its port is compared with the other ports elsewhere. */
export function* findNodeRedConflicts({ nodeRed, adminAuth, identity }: NodeRedOptions): Generator<Conflict> {
  const isOpen = adminAuth === undefined && identity === undefined;
  const isServed = nodeRed.port !== undefined || nodeRed.editor !== false;
  if (isServed && !isOpen && (adminAuth?.users ?? []).length === 0) {
    yield [
      "nodeRed.port",
      "requires adminAuth.users: Node-RED's tools log in with a name and a password, and have no other identity",
    ];
  }
}
