import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { readRuntime } from "./deploy.ts";
import { startService } from "./service.ts";
import { execute, succeed } from "../examples/execute.ts";
import { installPackages } from "../packaging/build.ts";
import { root } from "../packaging/stage.ts";
import { expectOutput } from "./transcript.ts";

/** The shell commands of the tutorial, each with the output that follows it. */
async function readSteps(): Promise<{ command: string; output: string | undefined }[]> {
  const text = await readFile(join(root, "docs/tutorial.md"), "utf8");
  const blocks = [...text.matchAll(/^```(sh|text)\n(.*?)^```/gms)].map(([, language, code = ""]) => ({
    language,
    code,
  }));
  return blocks.flatMap(({ language, code }, index) => {
    const next = blocks[index + 1];
    return language === "sh" ? [{ command: code, output: next?.language === "text" ? next.code : undefined }] : [];
  });
}

type Machine = AsyncDisposable & { readonly folder: string; readonly env: Readonly<Record<string, string>> };

/** An empty folder, and a PATH without flowgate, on which `npm install --global flowgate` links what npm has installed for the tests. */
async function createMachine(): Promise<Machine> {
  const base = await mkdtemp(join(tmpdir(), "flowgate-tutorial-"));
  const [folder, bin, global] = [join(base, "home"), join(base, "bin"), join(base, "global")];
  await Promise.all(
    [folder, bin, join(global, "bin"), join(global, "lib")].map((path) => mkdir(path, { recursive: true })),
  );
  const installed = join(await installPackages(), "node_modules");
  const script = `[ "$*" = "install --global flowgate" ] || exit 1
ln -s '${installed}' '${global}/lib/node_modules'
ln -s ../lib/node_modules/flowgate/dist/src/cli/main.js '${global}/bin/flowgate'`;
  await writeFile(join(bin, "npm"), `#!/bin/sh\nset -e\n${script}\n`, { mode: 0o755 });
  const path = [bin, join(global, "bin"), dirname(process.execPath), "/usr/local/bin", "/usr/bin", "/bin"];
  return {
    folder,
    env: { HOME: folder, PATH: path.join(delimiter) },
    [Symbol.asyncDispose]: () => rm(base, { recursive: true }),
  };
}

test("leads from an empty machine to an undone deployment in ten commands", async () => {
  const [install, start, ...steps] = await readSteps();
  expect(steps).toHaveLength(8);
  await using machine = await createMachine();
  const { folder, env } = machine;
  const bash = (command = "") => ["bash", "-euc", command] as const;
  const [shell, ...script] = bash(install?.command);
  await succeed(shell, script, { cwd: folder, env });

  await using service = await startService({
    command: bash(start?.command),
    cwd: folder,
    env: { ...env, FLOWGATE_PORT: "0", FLOWGATE_RUNTIME_PORT: "0" },
  });
  const { httpPort } = await readRuntime(service);
  const revs = async () => {
    const { revisions } = (await service.send("GET", "/revisions")).json() as { revisions: { rev: string }[] };
    return revisions.map(({ rev }) => rev);
  };
  for (const { command, output } of steps) {
    const [shell, ...script] = bash(command.replace(":1880", `:${httpPort}`));
    const { code, stdout, stderr } = await execute(shell, script, {
      cwd: folder,
      env: { ...env, FLOWGATE_SERVER: service.url },
    });
    expect({ command, code, stderr: code === 0 ? "" : stderr }).toEqual({ command, code: 0, stderr: "" });
    if (output !== undefined) {
      expectOutput(output.trimEnd(), stdout.trimEnd(), await revs());
    }
  }
  // What the package has besides, and an orderly end.
  for (const page of ["/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js"]) {
    expect(await service.send("GET", page)).toMatchObject({ status: 200 });
  }
  expect(await service.stop()).toBe(0);
  // The packages are built, and installed from npm's cache or the registry.
}, 600_000);
