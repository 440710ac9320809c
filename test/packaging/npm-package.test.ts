import { readdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint } from "../e2e/flow-builders.ts";
import { startService } from "../e2e/service.ts";
import { buildPackages } from "./build.ts";
import { type Stage, openStage, root } from "./stage.ts";

let stage: Stage;

/** The environment of a user's shell instead of an npm script, with Node 26 first on the PATH, since npm may have an older one. */
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))),
  PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
};

beforeAll(async () => {
  stage = await openStage();
  const { archives } = await buildPackages();
  const settings = ["--prefix", stage.empty, "--prefer-offline", "--no-audit", "--no-fund"];
  await stage.run("npm", ["install", ...settings, ...archives], { env });
}, 300_000);
afterAll(() => stage[Symbol.asyncDispose]());

test("can be installed into an empty folder, and prints its version there", async () => {
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
  expect(await stage.run("npx", ["flowgate", "--version"], { env })).toBe(`${version}\n`);
  const installed = await readdir(join(stage.empty, "node_modules"));
  expect(installed).toContain("flowgate");
  expect(installed).not.toContain("typescript");
});

test("is the complete service: deployments, flows, its pages, and an orderly shutdown", async () => {
  await using service = await startService({
    command: [join(stage.empty, "node_modules/.bin/flowgate")],
    cwd: stage.empty,
    env: { PATH: env.PATH },
  });
  await deploy(service, { flows: endpoint("/hello", "msg.payload = `Hello`") });
  expect(await service.get("/hello")).toBe("Hello");
  for (const page of ["/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js"]) {
    expect(await service.send("GET", page)).toMatchObject({ status: 200 });
  }
  expect(await service.stop()).toBe(0);
});

test("its types import its dependencies only", async () => {
  const folder = join(stage.empty, "node_modules/flowgate");
  const { dependencies } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as { dependencies: object };
  const files = new Set([join(folder, "dist/src/index.d.ts")]);
  const imported = new Set<string>();
  for (const file of files) {
    for (const [, specifier = ""] of (await readFile(file, "utf8")).matchAll(/\b(?:from |import\()"([^"]+)"/g)) {
      if (specifier.startsWith(".")) {
        files.add(join(dirname(file), specifier.replace(/(?:\.d)?\.[jt]s$/, ".d.ts")));
      } else {
        imported.add(/^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? "");
      }
    }
  }
  expect(imported).toContain("zod");
  expect([...imported].filter((name) => !name.startsWith("node:") && !(name in dependencies))).toEqual([]);
});

test("is a library with types", async () => {
  const program = join(stage.empty, "program.mts");
  await writeFile(
    program,
    `import { type Gateway, openGateway, parseOptions } from "flowgate";
     import { FlowsService } from "@flowgate/client";
     import { createGateway, openapi } from "@flowgate/gateway";
     import document from "flowgate/openapi.json" with { type: "json" };
     export const open: () => Promise<Gateway> = () => openGateway(parseOptions({ port: 0 }));
     // @ts-expect-error: a port is a number
     export const wrong = () => parseOptions({ port: "0" });
     console.log(typeof openGateway, FlowsService.typeName, typeof openapi, typeof createGateway, document.info.title);`,
  );
  const settings = ["--module", "nodenext", "--target", "esnext", "--strict", "--noEmit", "--resolveJsonModule"];
  const types = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  const tsc = join(root, "node_modules/.bin/tsc");
  await stage.run(tsc, [...settings, ...types, "--skipLibCheck", program], { env });
  expect(await stage.run(process.execPath, [program])).toBe(
    "function flowgate.v1.FlowsService function function Flowgate\n",
  );
});
