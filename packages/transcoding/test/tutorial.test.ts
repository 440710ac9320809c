import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findNode, thisNode } from "../../../test/packaging/nodes.ts";
import { openStage, root, type Stage } from "../../../test/packaging/stage.ts";

const document = (
  await Promise.all(
    ["README.md", "docs/reference.md"].map((file) => readFile(join(import.meta.dirname, "..", file), "utf8")),
  )
).join("\n");

type Block = {
  readonly language: string;
  /** Where the block is a file of the project. */
  readonly file: string | undefined;
  readonly text: string;
};

const blocks = [...document.matchAll(/^```(\w+)(?: file=(\S+))?\n(.*?)^```$/gms)].map(
  ([, language = "", file, text = ""]): Block => ({ language, file, text }),
);

/** A call as the document shows it. */
type Call = { readonly command: string; readonly answer: string };

/** `$ command`, and below it the answer, up to the next. */
function readCalls(text: string): Call[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((call) => {
      const end = call.indexOf("\n");
      return { command: call.slice(0, end), answer: call.slice(end + 1).trimEnd() };
    });
}

let stage: Stage;
let archive: string;

/** The project of the README in an empty folder, made with its own commands from the packed package. */
beforeAll(async () => {
  stage = await openStage();
  [archive = ""] = await stage.pack();
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
    await execute("sh", ["-ec", pinned.replace(/@flowgate\/transcoding@\S+/, archive)], stage.empty);
  }
}, 300_000);
afterAll(() => stage[Symbol.asyncDispose]());

type Versions = Readonly<Record<string, string>>;

describe.each([...(await Promise.all([findNode(22), findNode(24)])), thisNode])(
  "on Node $major",
  ({ path, missing }) => {
    test.skipIf(missing !== undefined).each([
      ["the tutorial", "Tutorial", "server.ts"],
      ["the example without Fastify", "Without Fastify", "node-http.ts"],
    ])("%s gives the answers that it shows", async (_name, heading, file) => {
      await using server = await openServer(path, stage.empty, file);
      for (const { command, answer } of consoleBlocks(heading).flatMap(({ text }) => readCalls(text))) {
        expect(`$ ${command}\n${await run(command, stage.empty, server.url)}`).toBe(`$ ${command}\n${answer}`);
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

test("the package brings no other", async () => {
  const folder = join(stage.checkout, "alone");
  await mkdir(folder);
  await execute("npm", ["install", "--prefix", folder, archive], folder);
  const installed = await execute("npm", ["ls", "--all", "--parseable", "--prefix", folder], folder);
  const names = installed.match(/(?<=node_modules\/).+$/gm);
  expect(new Set(names)).toEqual(new Set(["@bufbuild/protobuf", "@connectrpc/connect", "@flowgate/transcoding"]));
});

/** The calls under the heading, up to the next that is not below it. */
function consoleBlocks(heading: string): Block[] {
  const [, level = "", rest = ""] = new RegExp(`^(#+) ${heading}$(.*)`, "ms").exec(document) ?? [];
  const section = rest.split(new RegExp(`^#{1,${level.length}} `, "m"), 1)[0] ?? "";
  const found = blocks.filter(({ language, text }) => language === "console" && section.includes(text));
  expect(found).not.toEqual([]);
  return found;
}

/** As in a user's shell, but with the Node of the tests, for npm may come with an older one. */
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))),
  PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
  npm_config_prefer_offline: "true",
  PORT: "0",
};

async function execute(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd, env });
  return stdout;
}

/** What a command of the document prints, without what is another each time. */
async function run(command: string, dir: string, url: string): Promise<string> {
  const here = command.replaceAll("http://127.0.0.1:8080", url).replaceAll(/^curl /g, "curl --silent --show-error ");
  const output = await execute("sh", ["-c", here], dir);
  return output
    .replaceAll("\r\n", "\n")
    .replaceAll(/^(?:Date|Connection|Keep-Alive): .*\n/gm, "")
    .trimEnd();
}

async function openServer(
  node: string,
  dir: string,
  file: string,
): Promise<AsyncDisposable & { readonly url: string }> {
  const child = spawn(node, [file], { cwd: dir, env, stdio: ["ignore", "pipe", "inherit"] });
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
