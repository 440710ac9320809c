import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { CompleteOptions } from "./options.ts";
import { programFiles } from "./sandbox.ts";

/** The programs and libraries of the system, its configuration, and what Node reads about the processor and its limits. */
const system = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/etc",
  "/sys",
  "/nix/store",
  "/gnu/store",
  // Configurations of the name resolution that are linked from /etc.
  "/run/systemd/resolve",
  "/run/resolvconf",
  "/run/NetworkManager/resolv.conf",
];

/** Secrets of the service in folders that are visible. */
const configurationFolder = "/etc/flowgate";

const certificateVariables = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"] as const;

/** `own`: a file system of its own. `hide`: an empty directory or file. `folder`: a directory in which there are others. */
type Mount = "read" | "write" | "hide" | "own" | "folder";

type MountOptions = Pick<CompleteOptions, "dir" | "codeCacheDir" | "hidden" | "entry" | "allow">;

/**
 * Returns the arguments by which bubblewrap makes files visible: those of the system, of the program and of `dir`, and what `allow`
 * permits. `hidden` is hidden also where something visible contains it.
 */
export function mountArguments({ dir, codeCacheDir, hidden, entry, allow }: MountOptions): string[] {
  const certificates = certificateVariables.flatMap((name) => process.env[name] ?? []);
  const allowed = [...allow.fileSystemRead, ...allow.fileSystemWrite];
  const mounts = new Map<string, Mount>();
  const add = (mount: Mount, paths: readonly string[]): void => {
    for (const path of paths) {
      mounts.set(path, mount);
    }
  };
  add("read", [...system, process.execPath, ...certificates, ...programFiles(fileURLToPath(entry))]);
  add("own", ["/tmp", "/dev"]);
  add("read", allow.fileSystemRead);
  add("write", allow.fileSystemWrite);
  const secrets = [...hidden, configurationFolder].filter((path) => existsSync(path)).map((path) => realpathSync(path));
  add("hide", [...secrets, ...secrets.flatMap((secret) => allowed.flatMap((path) => aliasOf(secret, path)))]);
  add("read", codeCacheDir === undefined ? [] : [codeCacheDir]);
  add("write", [dir]);
  // That of the machine shows the processes of the service.
  for (const path of mounts.keys()) {
    if (path.startsWith("/proc/")) {
      mounts.delete(path);
    }
  }
  add("own", ["/proc"]);
  // bubblewrap would create them for its own user only.
  const parents = [...mounts.keys()]
    .flatMap(parentsOf)
    .filter((path) => path !== "/" && !mounts.has(path) && !isVisible(path, mounts));
  add("folder", parents);
  const ordered = [...mounts].toSorted(([one], [other]) => depthOf(one) - depthOf(other));
  const sealed = ordered.filter(([path, mount]) => mount === "hide" && isFolderIn(path, mounts)).map(([path]) => path);
  if (mounts.get("/dev") === "own") {
    sealed.push("/dev");
  }
  if (!mounts.has("/")) {
    sealed.push("/");
  }
  return [
    ...ordered.flatMap(([path, mount]) => mountOne(path, mount, mounts)),
    ...sealed.flatMap((path) => ["--remount-ro", path]),
  ];
}

function mountOne(path: string, mount: Mount, mounts: ReadonlyMap<string, Mount>): readonly string[] {
  switch (mount) {
    case "read":
      return ["--ro-bind-try", path, path];
    case "write":
      return ["--dev-bind-try", path, path];
    case "hide":
      if (isFolderIn(path, mounts)) {
        return ["--tmpfs", path];
      }
      return isVisible(path, mounts) ? ["--ro-bind", "/dev/null", path] : [];
    case "folder":
      return ["--perms", "0755", "--dir", path];
    case "own":
      return ownFileSystems[path] ?? [];
  }
}

const inMemory = ["--perms", "1777", "--size", String(256 * 1024 * 1024), "--tmpfs"];

const ownFileSystems: Readonly<Record<string, readonly string[]>> = {
  "/proc": ["--proc", "/proc"],
  "/tmp": [...inMemory, "/tmp"],
  "/dev": ["--dev", "/dev", ...inMemory, "/dev/shm"],
};

/** Where a secret is, if `path` is a link to a directory that contains it. */
function aliasOf(secret: string, path: string): string[] {
  const inside = existsSync(path) ? relative(realpathSync(path), secret) : "..";
  return inside.startsWith("..") ? [] : [join(path, inside)];
}

function isFolderIn(path: string, mounts: ReadonlyMap<string, Mount>): boolean {
  return isVisible(path, mounts) && statSync(path).isDirectory();
}

/** True if the mount of a directory that contains the path shows it. */
function isVisible(path: string, mounts: ReadonlyMap<string, Mount>): boolean {
  const mount = parentsOf(path)
    .map((parent) => mounts.get(parent))
    .find((one) => one !== undefined && one !== "folder");
  return mount === "read" || mount === "write";
}

/** The nearest one first. */
function parentsOf(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [parent, ...parentsOf(parent)];
}

function depthOf(path: string): number {
  return path === "/" ? 0 : path.split("/").length;
}
