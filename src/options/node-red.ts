import * as z from "zod";
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
        "Whether Node-RED's editor is served on this port, from the package `@node-red/editor-client`, which must be installed beside the service. `read-only`: nothing can be changed on this port, even with the permission for it.",
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
