import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { type Stage as DockerStage, last, parseCopy, parseDockerfile } from "./dockerfile-check.ts";
import { root as checkoutRoot, linkModules } from "./stage.ts";

export type Image = {
  /** The root folder of the image. */
  readonly root: string;
  /** Runs its entry point like a container engine, isolated if `isolated` is set. */
  readonly command: readonly [program: string, ...args: string[]];
  readonly env: Readonly<Record<string, string>>;
  /** Its stage of the Dockerfile. */
  readonly stage: DockerStage;
};

/** The paths that .dockerignore includes explicitly. */
export function readContext(checkout: string): Set<string> {
  const lines = readFileSync(join(checkout, ".dockerignore"), "utf8").split("\n");
  const [all, ...excepted] = lines.filter((line) => line !== "" && !line.startsWith("#"));
  if (all !== "*" || excepted.some((line) => !/^![\w.-]+$/.test(line))) {
    throw new Error(".dockerignore must leave everything out, and then name what goes in");
  }
  return new Set(excepted.map((line) => line.slice(1)).filter((path) => existsSync(join(checkout, path))));
}

/** Whether a process can have its own root here, which requires root, and is not possible in every container. */
export const isolated = (() => {
  try {
    execFileSync("unshare", ["--mount", "--pid", "--fork", "mount", "--make-rprivate", "/"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

/**
 * Executes the Dockerfile without a container engine: each stage is a folder. The base image is this machine's /usr and Node, and packages
 * come from the checkout's node_modules. Stages in `built` were executed before, by `buildStage`.
 */
export function buildImage(checkout: string, folder: string, built: Readonly<Record<string, string>> = {}): Image {
  const stages = readStages(checkout);
  const roots = new Map(
    stages.map(({ as }, at) => [as ?? String(at), built[as ?? ""] ?? join(folder, as ?? String(at))]),
  );
  const image = stages.at(-1);
  const root = [...roots.values()].at(-1);
  if (image === undefined || root === undefined) {
    throw new Error("the Dockerfile has no stages");
  }
  prepareRoot(root);
  for (const [at, stage] of stages.entries()) {
    if (built[stage.as ?? ""] === undefined) {
      execute(stage, roots.get(stage.as ?? String(at)) ?? folder, checkout, { roots, imageRoot: root });
    }
  }
  const env = Object.fromEntries(
    [...(last(image, "ENV") ?? "").matchAll(/(\w+)=(\S+)/g)].map(([, key, value]) => [key, value]),
  );
  return { root, env, stage: image, command: entryCommand(image, root) };
}

/** Executes one stage, which copies from no other one. */
export function buildStage(checkout: string, name: string, folder: string): void {
  const stage = readStages(checkout).find(({ as }) => as === name);
  if (stage === undefined) {
    throw new Error(`the Dockerfile has no stage ${name}`);
  }
  execute(stage, folder, checkout);
}

function readStages(checkout: string): DockerStage[] {
  return parseDockerfile(readFileSync(join(checkout, "Dockerfile"), "utf8"));
}

type Others = {
  /** The folders of the stages by their names. */
  readonly roots: ReadonlyMap<string, string>;
  /** That of the last one. */
  readonly imageRoot: string;
};

function execute(stage: DockerStage, stageRoot: string, checkout: string, others?: Others): void {
  const context = readContext(checkout);
  let workdir = "/";
  for (const { name, value } of stage.instructions) {
    if (name === "WORKDIR") {
      workdir = value;
    }
    const cwd = join(stageRoot, workdir);
    mkdirSync(cwd, { recursive: true });
    if (name === "COPY") {
      const { from, sources, target } = parseCopy(value);
      const origin = from === undefined ? checkout : (others?.roots.get(from) ?? "");
      for (const source of sources) {
        if (from === undefined && !context.has(source)) {
          throw new Error(`${source} is not in the context`);
        }
        const to = target.endsWith("/") ? join(target, source.slice(source.lastIndexOf("/") + 1)) : target;
        copy(join(origin, source), join(stageRoot, resolve(workdir, to)));
      }
    }
    if (name === "RUN") {
      run(value, cwd, stageRoot === others?.imageRoot ? stageRoot : undefined);
    }
  }
}

function run(command: string, cwd: string, root: string | undefined): void {
  if (command === "npm ci --no-audit --no-fund") {
    linkModules(cwd);
  } else if (command.startsWith("npm ci ")) {
    copyModules(command, cwd);
  } else if (command.startsWith("apt-get ")) {
    // It would install the packages on this machine, whose /usr is that of the image.
    return;
  } else if (root === undefined) {
    copyConsole(cwd);
    execFileSync("sh", ["-c", command], { cwd, stdio: "pipe" });
  } else if (isolated) {
    execFileSync("unshare", ["--mount", "sh", writeScript(root, "exec chroot . sh -c", command)], { stdio: "pipe" });
  }
}

/** Like COPY: the content of a directory is added to that of the target. */
function copy(source: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  execFileSync("cp", ["--archive", "--no-target-directory", source, target]);
}

/** Copies the built console of this checkout, which a build uses if it has the same sources. */
function copyConsole(cwd: string): void {
  mkdirSync(join(cwd, "dist"), { recursive: true });
  for (const path of ["dist/console", "dist/console.json"].filter((name) => existsSync(join(checkoutRoot, name)))) {
    copy(join(checkoutRoot, path), join(cwd, path));
  }
}

/** Copies what this command would install, according to npm: to download and unpack it takes minutes on a small machine. */
function copyModules(command: string, cwd: string): void {
  // The level that npm gives to the scripts that it runs silently would leave out the report.
  const report = execFileSync("sh", ["-c", `${command} --dry-run --json --loglevel=notice`], { cwd, encoding: "utf8" });
  const { add } = JSON.parse(report.slice(report.indexOf("{"))) as { readonly add: readonly { path: string }[] };
  // Packages in the folder of another one are copied with it.
  const paths = add.map(({ path }) => relative(cwd, path)).filter((path) => path.lastIndexOf("node_modules/") === 0);
  execFileSync("cp", ["--archive", "--parents", ...paths, cwd], { cwd: checkoutRoot });
}

function entryCommand(image: DockerStage, root: string): Image["command"] {
  const words = ["ENTRYPOINT", "CMD"].flatMap((name) => JSON.parse(last(image, name) ?? "[]") as string[]);
  if (!isolated) {
    return [process.execPath, ...words.slice(1).map((word) => (word.startsWith("/") ? join(root, word) : word))];
  }
  const [uid = "", gid = ""] = (last(image, "USER") ?? "").split(":");
  const volume = last(image, "VOLUME") ?? "";
  const drop = `setpriv --reuid=${uid} --regid=${gid} --clear-groups --no-new-privs --bounding-set=-all`;
  const script = writeScript(
    root,
    `mount --bind .${volume} .${volume}; mount -t proc proc proc; mount -o remount,bind,ro .; exec chroot . ${drop}`,
    ...words,
  );
  return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", script];
}

/** Mount points for the parts of this machine that form the base image. */
function prepareRoot(root: string): void {
  for (const folder of ["usr", "proc", "dev", "tmp", "etc"]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  writeFileSync(join(root, "node"), "");
  for (const name of ["bin", "sbin", "lib", "lib64"]) {
    symlinkSync(`usr/${name}`, join(root, name));
  }
}

/** A script that makes this folder the root, and runs `then` with the arguments there. */
function writeScript(root: string, then: string, ...words: readonly string[]): string {
  const script = `${root}.${words[0]?.replaceAll(/\W/g, "-").slice(0, 20) ?? ""}.sh`;
  const quoted = words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(" ");
  writeFileSync(
    script,
    `set -e
mount --make-rprivate /
mount --bind '${root}' '${root}'
cd '${root}'
mount --rbind /usr usr
mount --rbind /dev dev
mount --bind '${process.execPath}' node
export PATH=/:/usr/bin:/usr/sbin
${then} ${quoted}
`,
  );
  return script;
}
