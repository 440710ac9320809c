import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { readRuntime } from "./deploy.ts";
import { type Service, startService } from "./service.ts";
import { execute, succeed } from "../examples/execute.ts";
import { installPackages } from "../packaging/build.ts";
import { root } from "../packaging/stage.ts";
import { expectOutput } from "./transcript.ts";

const tutorial = await readFile(join(root, "docs/tutorial.md"), "utf8");
const [withCommandLine = "", withCurl = "", withLogin = ""] = tutorial.split(/^## (?:With curl|Require a login)$/m);

type Step = { readonly command: string; readonly output: string | undefined };

/** The shell commands of a part of the tutorial, each with the output that follows it. */
function readSteps(text: string): Step[] {
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

const bash = (command = "") => ["bash", "-euc", command] as const;

const onAnyPort = { FLOWGATE_PORT: "0", FLOWGATE_RUNTIME_PORT: "0" };

test("leads from an empty machine to an undone deployment in ten commands, then to curl and a login", async () => {
  const [install, start, ...steps] = readSteps(withCommandLine);
  expect(steps).toHaveLength(8);
  await using machine = await createMachine();
  const { folder, env } = machine;
  const [shell, ...script] = bash(install?.command);
  await succeed(shell, script, { cwd: folder, env });

  await using service = await startService({
    command: bash(start?.command),
    cwd: folder,
    env: { ...env, ...onAnyPort },
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

  const curl = (command: string, at: Service) => {
    const ported = command.replaceAll("http://127.0.0.1:8080", at.url).replaceAll(":1880", `:${httpPort}`);
    const [shell, ...script] = bash(ported);
    return succeed(shell, script, { cwd: folder, env });
  };
  const [change, undo] = readSteps(withCurl).map(({ command }) => command);
  expect(await curl(change ?? "", service)).toMatch(/^HTTP\/1\.1 200 [^]*\{"rev":"[^"]+"\}Hello again$/);
  // The same deployment again: the revision that was read is no longer active.
  const deploy = /^curl -i .*?\n.*nodes'$/ms.exec(change ?? "")?.[0] ?? "";
  expect(await curl(deploy, service)).toMatch(/^HTTP\/1\.1 409 [^]*"code":"version_mismatch"/);
  expect(await curl(undo ?? "", service)).toMatch(
    /^\{"revisions":\[.*\}0 added, 0 removed, 1 changed\n[^]*'Hello'; return msg;" -> "msg.payload = 'Hello again'[^]*HTTP\/1\.1 200 [^]*Hello$/,
  );

  // What the package has besides, and an orderly end.
  for (const page of ["/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js"]) {
    expect(await service.send("GET", page)).toMatchObject({ status: 200 });
  }
  expect(await service.stop()).toBe(0);

  const [restart, token, revoke] = readSteps(withLogin).map(({ command }) => command);
  const hashPassword = /^\$ (.*hash-password)$/m.exec(withLogin)?.[1] ?? "";
  const [hash, ...hashScript] = bash(`echo correct-horse | ${hashPassword}`);
  const hashed = (await succeed(hash, hashScript, { cwd: folder, env })).trim();
  const config = /^```yaml\n(.*?)^```/ms.exec(withLogin)?.[1] ?? "";
  await writeFile(join(folder, "flowgate.yaml"), config.replace(/"\$argon2id[^"]*"/, JSON.stringify(hashed)));
  await using guarded = await startService({ command: bash(restart), cwd: folder, env: { ...env, ...onAnyPort } });
  expect(await curl(`${token}${revoke}`, guarded)).toMatch(/^\[.*\]HTTP\/1\.1 200 [^]*content-length: 0/i);
  expect(await guarded.send("GET", "/flows")).toMatchObject({ status: 401 });
  // The packages are built, and installed from npm's cache or the registry.
}, 600_000);
