import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { isMissing } from "../e2e/program.ts";
import { root } from "./stage.ts";

const entry = fileURLToPath(new URL("../fixtures/packaging/closed-ports.ts", import.meta.url));
const mounts = existsSync("/proc/self/mounts") ? readFileSync("/proc/self/mounts", "utf8") : "";
const [, groups] = /^\S+ (\S+) cgroup2 /m.exec(mounts) ?? [];

type Group = Disposable & { readonly name: string };

/** A control group at the depth of that of the unit: two levels below the root. */
function createGroup(parent: string): Group {
  const slice = mkdtempSync(join(parent, "flowgate-"));
  const service = join(slice, "flowgate.service");
  mkdirSync(service);
  return {
    name: relative(parent, service),
    [Symbol.dispose]() {
      rmdirSync(service);
      rmdirSync(slice);
    },
  };
}

/** Whether root can load rules in a network namespace, and create control groups. */
function canFilter(): boolean {
  if (groups === undefined || spawnSync("unshare", ["--net", "--mount", "nft", "list", "ruleset"]).status !== 0) {
    return false;
  }
  try {
    using _ = createGroup(groups);
    return true;
  } catch {
    return false;
  }
}

test.skipIf(isMissing("nftables (nft, as root)", canFilter()))(
  "flowgate.nft closes the ports of the service to its flows, and to nobody else",
  async () => {
    const parent = groups ?? "";
    using group = createGroup(parent);
    const setUp = 'mount --bind "$0" /sys/fs/cgroup; exec "$@"';
    const isolated = ["--net", "--mount", "sh", "-c", setUp, parent];
    const command = [process.execPath, entry, join(root, "deploy/systemd/flowgate.nft"), group.name];
    const { stdout } = await promisify(execFile)("unshare", [...isolated, ...command]);
    const reached = (outcome: string) =>
      [8080, 9464, 1880].flatMap((port) =>
        ["127.0.0.1", "::1"].map((host) => [host, port, port === 1880 ? "open" : outcome]),
      );
    expect(JSON.parse(stdout)).toEqual({
      before: reached("open"),
      fromFlows: reached("ECONNREFUSED"),
      fromOthers: reached("open"),
    });
  },
);
