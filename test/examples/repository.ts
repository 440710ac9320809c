import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { mainPath } from "../cli/run-cli.ts";
import { type Execution, execute } from "./execute.ts";

/** A git repository with an example in it, and a folder of programs that come first on the PATH. */
export type Repository = AsyncDisposable & {
  readonly folder: string;
  /** Runs a shell script in it, by default as a pipeline does. */
  run(script: string, env?: Readonly<Record<string, string>>): Promise<Execution>;
  /** The same for a script that has to succeed. Returns its output. */
  succeed(script: string, env?: Readonly<Record<string, string>>): Promise<string>;
  /** The arguments of each call of one of the `recorded` programs, which do nothing else. */
  calls(program: string): Promise<string[]>;
};

/** `name` is the folder of an example. `recorded` are programs that are replaced, since they need other services. */
export async function createRepository(
  name: string,
  { recorded = [], env = {} }: { recorded?: readonly string[]; env?: Readonly<Record<string, string>> },
): Promise<Repository> {
  const root = await mkdtemp(join(tmpdir(), "flowgate-repository-"));
  const [folder, bin, home] = [join(root, "work"), join(root, "bin"), join(root, "home")];
  await Promise.all([folder, bin, home].map((path) => mkdir(path)));
  await cp(fileURLToPath(new URL(`../../examples/${name}`, import.meta.url)), folder, { recursive: true });
  const program = (name: string, script: string) =>
    writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await program("flowgate", `exec '${process.execPath}' '${mainPath}' "$@"`);
  await Promise.all(recorded.map((name) => program(name, `echo "$*" >>'${join(root, name)}.calls'`)));

  const surroundings = {
    HOME: home,
    PATH: [bin, process.env["PATH"]].join(delimiter),
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "",
    GIT_AUTHOR_NAME: "Ada",
    GIT_AUTHOR_EMAIL: "ada@example.com",
    GIT_COMMITTER_NAME: "Ada",
    GIT_COMMITTER_EMAIL: "ada@example.com",
    ...env,
  };
  const repository: Repository = {
    folder,
    run: (script, others = {}) => execute("sh", ["-ec", script], { cwd: folder, env: { ...surroundings, ...others } }),
    async succeed(script, others) {
      const { code, stdout, stderr } = await repository.run(script, others);
      if (code !== 0) {
        throw new Error(`${script}\nended with ${code}:\n${stdout}${stderr}`);
      }
      return stdout;
    },
    async calls(program) {
      const text = await readFile(join(root, `${program}.calls`), "utf8").catch(() => "");
      return text.split("\n").slice(0, -1);
    },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true }),
  };
  await repository.succeed(
    "git init --quiet --initial-branch main && git add . && git commit --quiet --message Example",
  );
  return repository;
}
