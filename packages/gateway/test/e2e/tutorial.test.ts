import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { buildPackages } from "../../../../test/packaging/build.ts";
import { findNode, thisNode } from "../../../../test/packaging/nodes.ts";
import { openStage, root, type Stage } from "../../../../test/packaging/stage.ts";
import type { OpenApiDocument } from "../../src/index.ts";
import { openListeningProgram } from "../listening-program.ts";

const document = (
  await Promise.all(
    ["README.md", "docs/reference.md", "docs/openapi.md"].map((file) =>
      readFile(join(import.meta.dirname, "../..", file), "utf8"),
    ),
  )
).join("\n");

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

let stage: Stage;
let archive: string;

/** Creates the README project in an empty folder with the commands of the README and the packed package. */
beforeAll(async () => {
  stage = await openStage();
  ({ "@flowgate/gateway": archive = "" } = (await buildPackages()).archives);
  for (const { file, text } of blocks) {
    if (file !== undefined) {
      await mkdir(dirname(join(stage.empty, file)), { recursive: true });
      await writeFile(join(stage.empty, file), text);
    }
  }
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Record<string, Versions>;
  const versions: Versions = { ...manifest["dependencies"], ...manifest["devDependencies"] };
  const commands = blocks.filter(({ language, text }) => language === "sh" && /^(?:npm install|npx buf) /.test(text));
  for (const { text } of commands) {
    const pinned = text.replaceAll(/(?<= )[@\w/-]+/g, (name) =>
      name in versions ? `${name}@${versions[name]}` : name,
    );
    await execute("sh", ["-ec", pinned.replace(/@flowgate\/gateway@\S+/, archive)], stage.empty);
  }
}, 300_000);
afterAll(() => stage[Symbol.asyncDispose]());

type Versions = Readonly<Record<string, string>>;

describe.each([...(await Promise.all([findNode(22), findNode(24)])), thisNode])(
  "on Node $major",
  ({ path, missing }) => {
    test.skipIf(missing !== undefined).each([
      // The introduction changes a book.
      ["the tutorial and the introduction", ["Tutorial", "@flowgate/gateway"], "server.ts"],
      ["the example on node:http", ["node:http"], "node-http.ts"],
    ])("%s: the commands print the documented output", async (_name, headings, file) => {
      await using server = await openListeningProgram(path, [file], { cwd: stage.empty, env });
      for (const { command, response } of headings.flatMap(readCallsOf)) {
        expect(`$ ${command}\n${await run(command, stage.empty, server.url)}`).toBe(`$ ${command}\n${response}`);
      }
    });
  },
);

test("the project of the tutorial has no type errors", async () => {
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { typeRoots: [join(root, "node_modules/@types")], noPropertyAccessFromIndexSignature: false },
    include: ["*.ts", "gen"],
  };
  await writeFile(join(stage.empty, "tsconfig.json"), JSON.stringify(config));
  await expect(execute(join(root, "node_modules/.bin/tsc"), ["-p", "."], stage.empty)).resolves.toBe("");
});

test("the plugin of the package describes the project as its server does", async () => {
  await using server = await openListeningProgram(process.execPath, ["server.ts"], { cwd: stage.empty, env });
  const served = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApiDocument;
  const written = parse(await readFile(join(stage.empty, "library.openapi.yaml"), "utf8")) as OpenApiDocument;
  expect(written.info).toEqual(served.info);
  expect(written.tags).toEqual([{ name: "LibraryService", description: "A library of books." }]);
  expect(withoutDescriptions(written.components)).toEqual(withoutDescriptions(served.components));
  expect(withoutDescriptions(written.paths)).toEqual(withoutDescriptions(served.paths));
});

test("the plugin reads the configuration of the documentation", async () => {
  const programs = join(stage.empty, "node_modules/.bin");
  const local = join(programs, "protoc-gen-flowgate-openapi");
  const opt = ["config=openapi.config.json", "output=configured.json"];
  const template = JSON.stringify({ version: "v2", plugins: [{ local, strategy: "all", out: ".", opt }] });
  await execute(join(programs, "buf"), ["generate", "--template", template], stage.empty);
  const text = await readFile(join(stage.empty, "configured.json"), "utf8");
  expect(JSON.parse(text)).toMatchObject({
    info: { title: "Library", license: { name: "MIT" } },
    paths: {
      "/v1/books": { get: { security: [] }, post: { security: [{ bearer: [] }] } },
      "/books/{id}": { delete: { operationId: "LibraryService_DeleteBook" } },
    },
  });
});

test("the package installs no other packages", async () => {
  const folder = join(stage.other, "alone");
  await mkdir(folder);
  await execute("npm", ["install", "--package-lock-only", "--prefix", folder, archive], folder);
  const lock = JSON.parse(await readFile(join(folder, "package-lock.json"), "utf8")) as { packages: object };
  const names = Object.keys(lock.packages).flatMap((path) => /(?<=node_modules\/).+$/.exec(path) ?? []);
  expect(new Set(names)).toEqual(new Set(["@bufbuild/protobuf", "@connectrpc/connect", "@flowgate/gateway"]));
});

const readCallsOf = (heading: string): Call[] => consoleBlocks(heading).flatMap(({ text }) => readCalls(text));

/** Without what comments become: generated code has none. */
function withoutDescriptions(value: object): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, each: unknown) => (key === "description" || key === "summary" ? undefined : each)),
  );
}

/** Returns the console blocks of a section, including its subsections. */
function consoleBlocks(heading: string): Block[] {
  const [, level = "", rest = ""] = new RegExp(`^(#+) ${heading}$(.*)`, "ms").exec(document) ?? [];
  // The title has the part before the first heading.
  const section = rest.split(new RegExp(`^#{1,${Math.max(2, level.length)}} `, "m"), 1)[0] ?? "";
  const found = blocks.filter(({ language, text }) => language === "console" && section.includes(text));
  expect(found).not.toEqual([]);
  return found;
}

/** The environment of a shell, with the Node of the tests: npm may come with an older one. */
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))),
  PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
  npm_config_prefer_offline: "true",
  npm_config_audit: "false",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
  PORT: "0",
};

async function execute(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd, env });
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
