import { execFile } from "node:child_process";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./stage.ts";

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
  const folder = join(root, "node_modules/.cache/nodes", releases[major]);
  const path = join(folder, "node_modules", name, "bin/node");
  try {
    await access(path).catch(() =>
      promisify(execFile)("npm", [
        "install",
        "--prefix",
        folder,
        "--prefer-offline",
        "--no-audit",
        "--no-fund",
        `${name}@${releases[major]}`,
      ]),
    );
    return { major, path, missing: undefined };
  } catch (error) {
    const missing = `Node ${releases[major]} can't be installed from npm: ${(error as Error).message}`;
    process.stderr.write(`${missing}\n`);
    return { major, path, missing };
  }
}

export const thisNode: NodeRelease = {
  major: Number.parseInt(process.versions.node, 10),
  path: process.execPath,
  missing: undefined,
};
