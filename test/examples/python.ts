import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { succeed } from "./execute.ts";

const python = "/usr/bin/python3";

export const hasPython = spawnSync(python, ["-c", "import ensurepip, venv"], { stdio: "ignore" }).status === 0;

const ofExample = fileURLToPath(new URL("../../examples/python/requirements.txt", import.meta.url));

/** The Python of a virtual environment with the packages in a file, which is kept for the next run of the tests. */
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
    await succeed(join(part, "bin/python"), ["-m", "pip", "install", "--quiet", "--requirement", requirements]);
    await rename(part, folder);
  }
  return program;
}
