import { execFileSync } from "node:child_process";
import { mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { deploy } from "../e2e/deploy.ts";
import { tab } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { runCommand } from "./run-command.ts";
import { onLinux } from "../needs.ts";

// A control sequence of one character, a mark that reverses text, and a style that hides text.
const hostile = "a\u009b2Jb\u202ec\x1b[8md\x85\u2028e";
const label = `label ${hostile}`;

let service: Service;
let folder: AsyncDisposable & { readonly path: string };

beforeAll(async () => {
  folder = await mkdtempDisposable(join(tmpdir(), "flowgate-cli-"));
  service = await startService({ config: { runtime: { freshProcess: "never" } } });
  await deploy(service, { flows: [{ ...tab("t"), label, info: `${hostile}\nof two lines` }] }, "full");
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand([...args, "-s", service.url], {
    env: { XDG_CONFIG_HOME: folder.path },
  });
  expect({ args, code, stderr }).toMatchObject({ code: 0 });
  for (const text of [stdout, stderr]) {
    // Styles are used in terminals only.
    expect(text).not.toMatch(/[^\P{Cc}\n]|[\u2028\u2029\p{Bidi_Control}]/u);
  }
  return stdout;
}

/** Without what the processes use, which is different each time. */
function withoutUsage(output: unknown): unknown {
  const { runtime, ...others } = Object(output) as { runtime?: object };
  if (runtime === undefined) {
    return output;
  }
  const { runtimeProcess: _, serviceProcess: __, disk: ___, ...rest } = runtime as Record<string, unknown>;
  return { ...others, runtime: rest };
}

test.each([["export"], ["get", "flows"], ["get", "flow", "t"], ["show", "@"], ["history"], ["status"]] as const)(
  "no text of a flow reaches the terminal unescaped: %s %s",
  async (...args) => {
    await run(...args);
    const json = await run(...args, "-o", "json");
    expect(withoutUsage(parse(await run(...args, "-o", "yaml")))).toEqual(withoutUsage(JSON.parse(json)));
  },
);

test("escapes in JSON and YAML keep the values, on stdout and in files", async () => {
  const [expected] = parse(await run("export", "-o", "json")) as [object];
  expect(expected).toMatchObject({ label, info: `${hostile}\nof two lines` });
  expect(JSON.parse(await run("export", "-o", "json"))).toEqual([expected]);
  expect(parse(await run("export", "-o", "yaml"))).toEqual([expected]);
  expect(parse(await run("get", "flow", "t", "-o", "yaml"))).toMatchObject({ label });
  for (const name of ["flows.json", "flows.yaml"]) {
    const path = join(folder.path, name);
    await run("export", path);
    expect(parse(await readFile(path, "utf8"))).toEqual([expected]);
    expect(await run("diff", path)).toContain("No changes.");
  }
});

test("messages of deployments and names of tokens are escaped", async () => {
  const path = join(folder.path, "next.json");
  await writeFile(path, JSON.stringify([{ ...tab("t"), label: `${label} 2` }]));
  for (const args of [
    ["plan", path],
    ["deploy", path, "--yes"],
    ["undo", "--yes"],
    ["rollback", "@~1", "--yes"],
  ]) {
    const outcome = await runCommand([...args, "-s", service.url], { env: { XDG_CONFIG_HOME: folder.path } });
    expect(`${outcome.stdout}${outcome.stderr}`).not.toMatch(/[^\P{Cc}\n]|[\u2028\u2029\p{Bidi_Control}]/u);
  }
});

test("a device is not read as flows, and a pipe is", onLinux, async () => {
  const link = join(folder.path, "zero.json");
  await symlink("/dev/zero", link);
  const fails = async (...args: string[]) =>
    (await runCommand(args, { env: { XDG_CONFIG_HOME: folder.path, FLOWGATE_SERVER: service.url } })).stderr;
  const message = `flowgate: ${link}: is a device or socket: specify a file\n`;
  expect(await fails("validate", link)).toBe(message);
  expect(await fails("deploy", link, "--yes")).toBe(message);
  expect(await fails("export", link)).toContain("is a device or socket");
  const flows = join(folder.path, "piped.json");
  await writeFile(flows, JSON.stringify([tab("t")]));
  const pipe = join(folder.path, "pipe");
  execFileSync("sh", ["-c", `mkfifo "${pipe}"`]);
  const [{ code }] = await Promise.all([
    runCommand(["validate", pipe], { env: {} }),
    writeFile(pipe, await readFile(flows)),
  ]);
  expect(code).toBe(0);
});

test("stdin without an end is not read to its end", onLinux, async () => {
  const script = `yes | "${process.execPath}" src/cli/main.ts validate -`;
  const ends = () => execFileSync("sh", ["-c", script], { encoding: "utf8", stdio: "pipe" });
  expect(ends).toThrow("<stdin>: is larger than 256 MiB: specify a file with flows");
});
