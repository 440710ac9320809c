import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { succeed } from "../../../../../test/examples/execute.ts";
import { goEnvironment as env } from "../../../../../test/go.ts";
import { clients, modules, type Tools } from "./tools.ts";

/** How to start a client, before the URL of the server. */
export type Command = readonly [program: string, args: readonly string[]];

export type Build = {
  /** Those that the generator needs. */
  readonly tools: { readonly [Name in keyof Tools]: string };
  /** The file of the OpenAPI document. */
  readonly document: string;
  /** A folder of the client, which does not exist yet. */
  readonly folder: string;
  /** The output of openapi-generator by the name of the folder in `clients`. */
  readonly openapiGenerator: (name: string) => Promise<string>;
};

export type Generator = {
  /** The folder in `clients` with the program that uses the client. */
  readonly name: string;
  readonly needs: readonly (keyof Tools)[];
  /** Generates the client, and compiles it with the program. */
  readonly build: (build: Build) => Promise<Command>;
};

/** Less time to start: no program runs for long enough to be worth the second compiler. */
const java = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"];

/** The settings of openapi-generator, by the name of the folder in `clients`. */
const settings: Readonly<Record<string, { readonly generatorName: string; readonly additionalProperties: object }>> = {
  "openapi-generator-python": {
    generatorName: "python",
    // The default ends with +0000, which is not a time zone of RFC 3339.
    additionalProperties: { packageName: "gadgets_client", datetimeFormat: "%Y-%m-%dT%H:%M:%S.%fZ" },
  },
  "openapi-generator-go": { generatorName: "go", additionalProperties: { packageName: "gadgets", withGoMod: false } },
  "openapi-generator-java": {
    generatorName: "java",
    additionalProperties: {
      library: "native",
      invokerPackage: "gadgets",
      apiPackage: "gadgets.api",
      modelPackage: "gadgets.model",
      openApiNullable: false,
      // Otherwise an unset Struct is sent as an empty one.
      containerDefaultToNull: true,
    },
  },
  "openapi-generator-typescript-fetch": { generatorName: "typescript-fetch", additionalProperties: {} },
};

/** Runs openapi-generator in one process for all of its clients, each in a subfolder of `output`. */
export async function runOpenapiGenerator(
  jar: string,
  documents: Readonly<Record<string, { readonly document: string; readonly like: string }>>,
  output: string,
): Promise<void> {
  await mkdir(output, { recursive: true });
  const files = Object.entries(documents).map(async ([name, { document, like }]) => {
    const file = join(output, `${name}.json`);
    await writeFile(file, JSON.stringify({ ...settings[like], inputSpec: document, outputDir: join(output, name) }));
    return file;
  });
  await succeed("java", [
    ...java,
    "-jar",
    jar,
    "batch",
    "--fail-fast",
    "--threads",
    "2",
    ...(await Promise.all(files)),
  ]);
}

export const openapiGeneratorClients = Object.keys(settings);

export const generators: readonly Generator[] = [
  {
    name: "openapi-generator-python",
    needs: ["openapiGenerator", "python"],
    async build({ tools, folder, openapiGenerator }) {
      await cp(await openapiGenerator("openapi-generator-python"), folder, { recursive: true });
      await cp(join(clients, "openapi-generator-python"), folder, { recursive: true });
      // A field named like a method of the base class is a warning.
      return [tools.python, ["-W", "ignore", join(folder, "main.py")]];
    },
  },
  {
    name: "openapi-generator-go",
    needs: ["openapiGenerator", "go"],
    async build({ tools, folder, openapiGenerator }) {
      await cp(join(clients, "openapi-generator-go"), folder, { recursive: true });
      await cp(await openapiGenerator("openapi-generator-go"), join(folder, "gadgets"), {
        recursive: true,
        filter: (path) => !path.endsWith("/test"),
      });
      return await compileGo(tools.go, folder);
    },
  },
  {
    name: "openapi-generator-java",
    needs: ["openapiGenerator", "jars"],
    async build({ tools, folder, openapiGenerator }) {
      const sources = join(await openapiGenerator("openapi-generator-java"), "src/main/java");
      const program = join(clients, "openapi-generator-java");
      await compileJava(tools, ["-sourcepath", `${program}:${sources}`, join(program, "Main.java")], folder);
      return ["java", [...java, "-cp", classPathOf(tools, folder), "Main"]];
    },
  },
  {
    name: "openapi-generator-typescript-fetch",
    needs: ["openapiGenerator"],
    async build({ folder, openapiGenerator }) {
      await cp(await openapiGenerator("openapi-generator-typescript-fetch"), join(folder, "generated"), {
        recursive: true,
      });
      return await compileTypeScript("openapi-generator-typescript-fetch", folder);
    },
  },
  {
    name: "oapi-codegen",
    needs: ["go"],
    async build({ tools, document, folder }) {
      await cp(join(clients, "oapi-codegen"), folder, { recursive: true });
      await mkdir(join(folder, "gadgets"));
      const generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2";
      const settings = ["-generate", "types,client", "-package", "gadgets", "-o", join(folder, "gadgets/client.go")];
      await succeed(tools.go, ["run", generator, ...settings, document], { env });
      return await compileGo(tools.go, folder);
    },
  },
  {
    name: "ogen",
    needs: ["go"],
    async build({ tools, document, folder }) {
      await generateOgen(tools.go, document, folder, "gadgets");
      await cp(join(clients, "ogen/main.go"), join(folder, "main.go"));
      return await compileGo(tools.go, folder);
    },
  },
  {
    name: "openapi-typescript",
    needs: ["npm"],
    async build({ tools, document, folder }) {
      await runNpm(tools.npm, "openapi-typescript/bin/cli.js", [document, "-o", join(folder, "generated/schema.ts")]);
      return await compileTypeScript("openapi-typescript", folder, tools.npm);
    },
  },
  {
    name: "hey-api",
    needs: ["npm"],
    async build({ tools, document, folder }) {
      const settings = ["-i", document, "-o", join(folder, "generated"), "--silent"];
      await runNpm(tools.npm, "@hey-api/openapi-ts/bin/run.js", settings);
      return await compileTypeScript("hey-api", folder);
    },
  },
  {
    name: "orval",
    needs: ["npm"],
    async build({ tools, document, folder }) {
      await cp(join(clients, "orval"), folder, { recursive: true });
      await cp(document, join(folder, "openapi.json"));
      await runNpm(tools.npm, "orval/dist/bin/orval.mjs", ["--config", join(folder, "orval.config.mjs")]);
      return await compileTypeScript("orval", folder);
    },
  },
];

/** Generates a client in a package of its name, and compiles it. */
export async function generateOgen(go: string, document: string, folder: string, name: string): Promise<void> {
  for (const file of ["go.mod", "go.sum", "ogen.yml"]) {
    await cp(join(clients, "ogen", file), join(folder, file));
  }
  // Without this extension, times have no fractions of a second.
  const text = (await readFile(document, "utf8")).replaceAll(
    '"format":"date-time"',
    '"format":"date-time","x-ogen-time-format":"2006-01-02T15:04:05.999999999Z07:00"',
  );
  await writeFile(join(folder, "openapi.json"), text);
  const generator = "github.com/ogen-go/ogen/cmd/ogen@v1.24.0";
  const settings = ["-config", "ogen.yml", "-package", name, "-target", name, "-loglevel", "error"];
  await succeed(go, ["run", generator, ...settings, "openapi.json"], { cwd: folder, env });
  await succeed(go, ["build", `./${name}`], { cwd: folder, env });
}

/** Compiles all files that openapi-generator has written. */
export async function compileJavaSources(tools: Build["tools"], generated: string, folder: string): Promise<void> {
  const program = join(clients, "openapi-generator-java");
  const sources = join(generated, "src/main/java");
  const files = (await readdir(sources, { recursive: true })).filter((file) => file.endsWith(".java"));
  await compileJava(tools, ["-sourcepath", program, ...files.map((file) => join(sources, file))], folder);
}

async function compileJava(tools: Build["tools"], sources: readonly string[], folder: string): Promise<void> {
  const options = [...java.map((option) => `-J${option}`), "-encoding", "UTF-8", "-proc:none", "-nowarn"];
  await succeed("javac", [...options, "-cp", classPathOf(tools, folder), "-d", folder, ...sources]);
}

/** The first jar contains Jackson. */
function classPathOf({ openapiGenerator, jars }: Build["tools"], folder: string): string {
  return [openapiGenerator, `${jars}/*`, folder].join(":");
}

async function runNpm(npm: string, script: string, args: readonly string[]): Promise<void> {
  await succeed(process.execPath, [join(npm, "node_modules", script), ...args]);
}

async function compileGo(go: string, folder: string): Promise<Command> {
  const program = join(folder, "client");
  await succeed(go, ["build", "-o", program, "."], { cwd: folder, env });
  return [program, []];
}

/** Checks the types of a client and of the program that uses it, and bundles them. */
async function compileTypeScript(name: string, folder: string, npm?: string): Promise<Command> {
  await cp(join(clients, "typescript"), folder, { recursive: true });
  await cp(join(clients, name), folder, { recursive: true });
  if (npm !== undefined) {
    await symlink(join(npm, "node_modules"), join(folder, "node_modules"));
  }
  const tsc = join(modules, ".bin/tsc");
  await succeed(tsc, ["-p", folder, "--typeRoots", join(modules, "@types")], { cwd: folder });
  const bundle = await rolldown({ input: join(folder, "main.ts"), platform: "node", logLevel: "silent" });
  const file = join(folder, "main.mjs");
  await bundle.write({ file });
  return [process.execPath, [file]];
}
