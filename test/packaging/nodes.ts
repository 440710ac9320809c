import { join } from "node:path";
import { installOnce } from "./install-once.ts";

/** Releases of Node from npm, which packages are tried on beside the one that runs the tests. */
const releases = { 20: "20.20.2", 22: "22.23.3", 24: "24.21.0" } as const;

export type NodeRelease = {
  readonly major: number;
  readonly path: string;
  /** Why it can't be had; undefined: it is there. */
  readonly missing: string | undefined;
};

/** Gets a Node from npm's packages, once for this checkout. */
export async function findNode(major: keyof typeof releases): Promise<NodeRelease> {
  const name = `node-${process.platform}-${process.arch}`;
  const { folder, missing } = await installOnce({ [name]: releases[major] });
  return { major, path: join(folder, name, "bin/node"), missing };
}

export const thisNode: NodeRelease = {
  major: Number.parseInt(process.versions.node, 10),
  path: process.execPath,
  missing: undefined,
};
