import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execute, succeed } from "./execute.ts";

const python = "/usr/bin/python3";

export const hasPython = spawnSync(python, ["-c", "import ensurepip, venv"], { stdio: "ignore" }).status === 0;

const cache = fileURLToPath(new URL("../../node_modules/.cache/python", import.meta.url));
const ofExample = fileURLToPath(new URL("../../examples/python/requirements.txt", import.meta.url));

/** The packages can't be installed, for example without a network. */
export class InstallationError extends Error {}

/** The Python of a virtual environment with the packages in a file, which is kept for the next run of the tests. Rejects with an InstallationError. */
export async function openPython(requirements: string = ofExample): Promise<string> {
  const name = createHash("sha256")
    .update(await readFile(requirements))
    .digest("hex")
    .slice(0, 16);
  // Without pip, whose installation takes as long as that of most packages.
  const folder = await createOnce(name, async (part) => {
    const pip = await createOnce("pip", (own) => succeed(python, ["-m", "venv", own]));
    await succeed(python, ["-m", "venv", "--without-pip", part]);
    const settings = ["--quiet", "--disable-pip-version-check", "--no-compile", "--requirement", requirements];
    const install = ["-m", "pip", "--python", join(part, "bin/python"), "install", ...settings];
    const { code, stderr } = await execute(join(pip, "bin/python"), install);
    if (code !== 0) {
      throw new InstallationError(stderr);
    }
  });
  return join(folder, "bin/python");
}

/** A folder that is kept, and is renamed when it is complete: other processes may create the same. */
async function createOnce(name: string, create: (part: string) => Promise<unknown>): Promise<string> {
  const folder = join(cache, name);
  if (!existsSync(folder)) {
    await mkdir(cache, { recursive: true });
    const part = await mkdtemp(join(cache, "part-"));
    await create(part);
    await rename(part, folder).catch(() => rm(part, { recursive: true }));
  }
  return folder;
}
