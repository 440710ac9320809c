import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = new URL("../../..", import.meta.url).pathname;
const document = await readFile(join(root, "packages/transcoding/docs/reference.md"), "utf8");

type Block = {
  readonly language: string;
  /** The name of the file, if the block is one. */
  readonly file: string | undefined;
  readonly text: string;
};

const blocks = [...document.matchAll(/^```(\w+)(?: file=(\S+))?\n(.*?)^```$/gms)].map(
  ([, language = "", file, text = ""]): Block => ({ language, file, text }),
);

/** A documented command with its output. */
type Call = { readonly command: string; readonly response: string };

/** `$ command`, followed by its output. */
function readCalls(text: string): Call[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((call) => {
      const end = call.indexOf("\n");
      return { command: call.slice(0, end), response: call.slice(end + 1).trimEnd() };
    });
}

let project: Awaited<ReturnType<typeof openProject>>;

beforeAll(async () => {
  project = await openProject();
});

afterAll(() => project[Symbol.asyncDispose]());

test("the tutorial's commands print the documented output", async () => {
  await using server = await openServer(project.dir, "server.ts");
  for (const { command, response } of consoleBlocks("Tutorial").flatMap(({ text }) => readCalls(text))) {
    expect(`$ ${command}\n${await run(command, project.dir, server.url)}`).toBe(`$ ${command}\n${response}`);
  }
});

test("the commands for the example without Fastify print the documented output", async () => {
  await using server = await openServer(project.dir, "node-http.ts");
  for (const { command, response } of consoleBlocks("Without Fastify").flatMap(({ text }) => readCalls(text))) {
    expect(`$ ${command}\n${await run(command, project.dir, server.url)}`).toBe(`$ ${command}\n${response}`);
  }
});

test("the project of the tutorial has no type errors", async () => {
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { typeRoots: [join(root, "node_modules/@types")], noPropertyAccessFromIndexSignature: false },
    include: ["*.ts", "gen"],
  };
  await writeFile(join(project.dir, "tsconfig.json"), JSON.stringify(config));
  await expect(execute("tsc", ["-p", "."], project.dir)).resolves.toBe("");
});

test("the reference has exactly one row for every option", async () => {
  const sources: [heading: string, file: string, type: string][] = [
    ["TranscoderOptions", "packages/transcoding/src/transcoder/options.ts", "TranscoderOptions"],
    [
      "FastifyTranscodingPluginOptions",
      "packages/transcoding/src/adapters/fastify/plugin.ts",
      "FastifyTranscodingPluginOptions",
    ],
    ["CompressionOptions", "packages/transcoding/src/response/compression.ts", "CompressionOptions"],
    ["CorsOptions", "packages/transcoding/src/http/cors.ts", "CorsOptions"],
    ["OpenApiOptions", "packages/transcoding/src/openapi/openapi.ts", "OpenApiOptions"],
    ["TranscodingRequest", "packages/transcoding/src/http/request.ts", "TranscodingRequest"],
    ["TranscodingError", "packages/transcoding/src/errors/format.ts", "TranscodingError"],
  ];
  for (const [heading, file, type] of sources) {
    const keys = keysOf(await readFile(join(root, file), "utf8"), type);
    // TranscodingRequest includes CallOrigin.
    const more = type === "TranscodingRequest" ? keysOf(await read(file), "CallOrigin") : [];
    expect({ heading, rows: rowsOf(heading).toSorted() }).toEqual({ heading, rows: [...keys, ...more].toSorted() });
  }
});

test("the reference has exactly one row for every option of transcoding.v1", async () => {
  const proto = await read("packages/transcoding/proto/transcoding/v1/annotations.proto");
  const messages = [...proto.matchAll(/^message (\w+) \{\n(.*?)^\}/gms)];
  expect(messages.length).toBeGreaterThan(5);
  for (const [, name = "", body = ""] of messages) {
    const fields = [...body.matchAll(/^ {2}(?:repeated )?\w+ (\w+) = \d+;/gm)].map(([, field = ""]) => field);
    expect({ name, rows: rowsOf(name).toSorted() }).toEqual({ name, rows: fields.toSorted() });
  }
});

test("the documented presets are the exported ones", async () => {
  const { presets } = await import("../src/index.ts");
  expect(rowsOf("presets")).toEqual(Object.keys(presets));
});

const read = (file: string): Promise<string> => readFile(join(root, file), "utf8");

/** The property names in the declaration of an object type. */
function keysOf(source: string, type: string): string[] {
  const start = source.indexOf(`export type ${type} =`);
  const body = source.slice(start, source.indexOf("\n};", start));
  const keys = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(]/gm)].map(([, key = ""]) => key);
  expect({ type, keys }).not.toEqual({ type, keys: [] });
  return keys;
}

/** The first cells of the table under the heading with `name` as code. */
function rowsOf(name: string): string[] {
  const section = document.split(/^#{2,4} /m).find((each) => each.split("\n", 1)[0]?.includes(`\`${name}\``));
  if (section === undefined) {
    throw new Error(`there is no heading for ${name}`);
  }
  return [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, cell = ""]) => cell);
}

/** The commands in the section of a heading. */
function consoleBlocks(heading: string): Block[] {
  const [, level = "", rest = ""] = new RegExp(`^(#+) ${heading}$(.*)`, "ms").exec(document) ?? [];
  const section = rest.split(new RegExp(`^#{1,${level.length}} `, "m"), 1)[0] ?? "";
  const found = blocks.filter(({ language, text }) => language === "console" && section.includes(text));
  expect(found).not.toEqual([]);
  return found;
}

/** The files of the document and generated code, in a folder with the packages of this checkout. */
async function openProject(): Promise<AsyncDisposable & { readonly dir: string }> {
  const dir = await mkdtemp(join(tmpdir(), "transcoding-tutorial-"));
  const opened = { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
  try {
    for (const { file, text } of blocks) {
      if (file !== undefined) {
        await mkdir(dirname(join(dir, file)), { recursive: true });
        await writeFile(join(dir, file), text);
      }
    }
    await linkModules(join(dir, "node_modules"));
    await execute("buf", ["generate"], dir);
    return opened;
  } catch (error) {
    await opened[Symbol.asyncDispose]();
    throw error;
  }
}

async function linkModules(modules: string): Promise<void> {
  await mkdir(modules);
  for (const name of await readdir(join(root, "node_modules"))) {
    await symlink(join(root, "node_modules", name), join(modules, name));
  }
}

const env = { ...process.env, PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env["PATH"]}`, PORT: "0" };

async function execute(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd, env, timeout: 60_000 });
  return stdout;
}

/** The output of a documented command, without parts that vary. */
async function run(command: string, dir: string, url: string): Promise<string> {
  const here = command.replaceAll("http://127.0.0.1:8080", url).replaceAll(/^curl /g, "curl --silent --show-error ");
  const output = await execute("sh", ["-c", here], dir);
  return output
    .replaceAll("\r\n", "\n")
    .replaceAll(/^(?:Date|Connection|Keep-Alive): .*\n/gm, "")
    .trimEnd();
}

async function openServer(dir: string, file: string): Promise<AsyncDisposable & { readonly url: string }> {
  const child = spawn(process.execPath, [file], { cwd: dir, env, stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const dispose = async (): Promise<void> => {
    child.kill();
    await exited;
  };
  let text = "";
  for await (const chunk of child.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    text += String(chunk);
    const url = /listens on (http:\S+)\n/.exec(text)?.[1];
    if (url !== undefined) {
      return { url, [Symbol.asyncDispose]: dispose };
    }
  }
  await dispose();
  throw new Error(`${file} did not listen: ${text}`);
}
