import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execute, succeed } from "./execute.ts";

const python = "/usr/bin/python3";

export const hasPython = spawnSync(python, ["-c", "import ensurepip, venv"], { stdio: "ignore" }).status === 0;

const ofExample = fileURLToPath(new URL("../../examples/python/requirements.txt", import.meta.url));

/** The packages can't be installed, for example without a network. */
export class InstallationError extends Error {}

/** The Python of a virtual environment with the packages in a file, which is kept for the next run of the tests. Rejects with an InstallationError. */
export async function openPython(requirements: string = ofExample): Promise<string> {
  const name = createHash("sha256")
    .update(await readFile(requirements))
    .digest("hex")
    .slice(0, 16);
  const folder = fileURLToPath(new URL(`../../node_modules/.cache/python/${name}`, import.meta.url));
  const program = join(folder, "bin/python");
  if (!existsSync(program)) {
    const part = `${folder}.part`;
    await rm(part, { recursive: true, force: true });
    await succeed(python, ["-m", "venv", part]);
    const install = ["-m", "pip", "install", "--quiet", "--requirement", requirements];
    const { code, stderr } = await execute(join(part, "bin/python"), install);
    if (code !== 0) {
      throw new InstallationError(stderr);
    }
    await rename(part, folder);
  }
  return program;
}
