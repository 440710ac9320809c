import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { installPackages, shellEnvironment as env } from "./build.ts";
import { root, run } from "./stage.ts";

// That it is the complete service is tested by the commands of the tutorial: test/e2e/tutorial.test.ts.

let folder: string;

beforeAll(async () => {
  folder = await installPackages();
}, 300_000);

test("can be installed into an empty folder, and prints its version there", async () => {
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
  expect(await run("npx", ["flowgate", "--version"], { cwd: folder, env })).toBe(`${version}\n`);
  const installed = await readdir(join(folder, "node_modules"));
  expect(installed).toContain("flowgate");
  expect(installed).not.toContain("typescript");
});

test("its types import its dependencies only", async () => {
  const service = join(folder, "node_modules/flowgate");
  const { dependencies } = JSON.parse(await readFile(join(service, "package.json"), "utf8")) as {
    dependencies: object;
  };
  const files = new Set([join(service, "dist/src/index.d.ts")]);
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
  const program = join(folder, "program.mts");
  await writeFile(
    program,
    `import { type Flowgate, openFlowgate, parseOptions } from "flowgate";
     import { FlowsService } from "@flowgate/client";
     import { createGateway, openapi } from "@flowgate/gateway";
     import document from "flowgate/openapi.json" with { type: "json" };
     export const open: () => Promise<Flowgate> = () => openFlowgate(parseOptions({ port: 0 }));
     // @ts-expect-error: a port is a number
     export const wrong = () => parseOptions({ port: "0" });
     console.log(typeof openFlowgate, FlowsService.typeName, typeof openapi, typeof createGateway, document.info.title);`,
  );
  const settings = ["--module", "nodenext", "--target", "esnext", "--strict", "--noEmit", "--resolveJsonModule"];
  const types = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  const tsc = join(root, "node_modules/.bin/tsc");
  await run(tsc, [...settings, ...types, "--skipLibCheck", program], { cwd: folder, env });
  expect(await run(process.execPath, [program], { cwd: folder })).toBe(
    "function flowgate.v1.FlowsService function function Flowgate\n",
  );
});
