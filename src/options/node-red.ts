import * as z from "zod";
import type { Conflict } from "./access.ts";
import { port } from "./values.ts";

export const nodeRed = z
  .strictObject({
    port: port
      .optional()
      .describe(
        "Port of Node-RED's admin API, for `node-red-admin` and other tools of Node-RED, on the same `host`. 0 selects a free port. Absent: it is not served.",
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
  if (nodeRed.port !== undefined && !isOpen && (adminAuth?.users ?? []).length === 0) {
    yield [
      "nodeRed.port",
      "requires adminAuth.users: Node-RED's tools log in with a name and a password, and have no other identity",
    ];
  }
}
