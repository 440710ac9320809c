import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { create, createFileRegistry, fromBinary, maximumEdition, minimumEdition } from "@bufbuild/protobuf";
import {
  CodeGeneratorRequestSchema,
  CodeGeneratorResponse_Feature,
  FileDescriptorSetSchema,
  type FileDescriptorSet,
} from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { openapi, presets, readComments, type OpenApiDocument } from "../../src/index.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { generate } from "../../src/plugin/generate.ts";
import { compileProto } from "../openapi/compile-proto.ts";
import { problemOf } from "../openapi-check.ts";

const root = resolve(import.meta.dirname, "../../../..");
const plugin = join(root, "packages/gateway/src/plugin/main.ts");
const things = "packages/gateway/test/proto";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "openapi-plugin-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function buf(...args: readonly string[]): Promise<Buffer> {
  const options = { cwd: root, encoding: "buffer", maxBuffer: 16 * 1024 * 1024 } as const;
  return (await promisify(execFile)(join(root, "node_modules/.bin/buf"), args, options)).stdout;
}

/** Runs buf with the plugin as an executable, and returns the text of the file. */
async function generateWithBuf(input: string, output: string, options: readonly string[] = []): Promise<string> {
  const template = {
    version: "v2",
    plugins: [
      { local: [process.execPath, plugin], strategy: "all", out: folder, opt: [`output=${output}`, ...options] },
    ],
  };
  await buf("generate", input, "--template", JSON.stringify(template));
  return readFile(join(folder, output), "utf8");
}

const descriptors = new Map<string, Promise<FileDescriptorSet>>();

function build(input: string): Promise<FileDescriptorSet> {
  const found =
    descriptors.get(input) ??
    buf("build", input, "--as-file-descriptor-set", "-o", "-").then((bytes) =>
      fromBinary(FileDescriptorSetSchema, bytes),
    );
  descriptors.set(input, found);
  return found;
}

const version = 'version=1,title="Things", and others';
const info = { title: '"Things", and others', version: "1" };

describe.each<[input: string, packageFolder: string, services: readonly string[]]>([
  [things, "gatewaytest/", ["gatewaytest.v1.ThingsService", "gatewaytest.v1.RawService"]],
  ["proto", "flowgate/", ["flowgate.v1.*"]],
])("the document of %s", (input, packageFolder, services) => {
  const options = [version, ...services.map((name) => `include=${name}`)];

  /** The text of the file, which the plugin generates in this process. */
  async function textOf(output: string): Promise<string> {
    const { file: protoFile } = await build(input);
    const fileToGenerate = protoFile.map(({ name }) => name).filter((name) => name.startsWith(packageFolder));
    const parameter = [`output=${output}`, ...options].join(",");
    const { error, file } = generate(create(CodeGeneratorRequestSchema, { parameter, fileToGenerate, protoFile }));
    expect(error).toBe("");
    return file[0]?.content ?? "";
  }

  test("is that of openapi(), and valid", async () => {
    const document = JSON.parse(await textOf("a.json")) as OpenApiDocument;
    const set = await build(input);
    const isSelected = (name: string): boolean =>
      services.some((each) => each === name || (each.endsWith("*") && name.startsWith(each.slice(0, -1))));
    const described = [...createFileRegistry(set).files]
      .toSorted((one, other) => (one.name < other.name ? -1 : 1))
      .flatMap((file) => file.services)
      .filter(({ typeName }) => isSelected(typeName));
    const expected = openapi(
      { routes: (router) => described.forEach((service) => router.service(service, {})) },
      { info, comments: readComments(set) },
    );
    expect(document).toEqual(expected);
    expect(Object.keys(document.paths).length).toBeGreaterThan(4);
    expect(await problemOf(document)).toBeUndefined();
  });

  test("has the same content as YAML, and is written in the same way each time, also by buf", async () => {
    const text = await textOf("b.yaml");
    expect(parse(text)).toEqual(JSON.parse(await textOf("a.json")));
    // A reader of YAML 1.1, where more words are booleans and numbers.
    expect(parse(text, { version: "1.1" })).toEqual(parse(text));
    expect(await generateWithBuf(input, "d.yml", options)).toBe(text);
  });
});

/** Runs the plugin in this process, for files that buf built. */
function run(set: FileDescriptorSet, files: readonly string[], parameter: string) {
  const request = create(CodeGeneratorRequestSchema, { parameter, fileToGenerate: [...files], protoFile: set.file });
  const { error, file, ...others } = generate(request);
  const [first, ...more] = file;
  expect(more).toEqual([]);
  return {
    ...others,
    error,
    name: first?.name,
    document: first === undefined ? undefined : (parse(first.content ?? "") as OpenApiDocument),
  };
}

async function runThings(parameter: string) {
  const services = parameter.includes("include=") ? [] : ["include=gatewaytest.v1.ThingsService"];
  const file = "gatewaytest/v1/things.proto";
  return run(await build(things), [file], [parameter, ...services].filter((each) => each !== "").join(","));
}

describe("an option", () => {
  test.each<[parameter: string, expected: object]>([
    ["", { info: { title: "gatewaytest.v1", version: "v1" }, servers: [{ url: "/" }] }],
    ["title=A = B, c, version=2", { info: { title: "A = B, c, version=2", version: "v1" } }],
    ["description=One, two,version=2", { info: { description: "One, two", version: "2" } }],
    ["servers=https://a.example/x,servers=/", { servers: [{ url: "https://a.example/x" }, { url: "/" }] }],
    ["errors=problem", { components: { schemas: { Problem: {} } } }],
    ["schemas=exact", { components: { schemas: { ThingInput: {} } } }],
    ["preset=grpcGateway", { components: { schemas: { Status: {} } } }],
    ["preset=grpcGateway,errors=plain", { components: { schemas: { Error: {} } } }],
  ])("%s", async (parameter, expected) => {
    expect(await runThings(parameter)).toMatchObject({ error: "", name: "openapi.json", document: expected });
  });

  test.each(Object.entries(presets))("preset=%s describes what the preset serves", async (name, preset) => {
    const set = await build(things);
    const parameter = `preset=${name},include=gatewaytest.v1.StreamsService`;
    const { document } = run(set, ["gatewaytest/v1/streams.proto"], parameter);
    const expected = openapi(
      { ...preset, routes: (router) => router.service(StreamsService, {}) },
      { info: { title: "gatewaytest.v1", version: "v1" }, comments: readComments(set) },
    );
    expect(document).toEqual(expected);
  });

  test.each<[parameter: string, error: string]>([
    ["tittle=x", "there is no option tittle; did you mean title?"],
    ["inclued=x", "there is no option inclued; did you mean include?"],
    [
      "grpc=1",
      "there is no option grpc; the options are output, title, version, description, servers, connect, include, exclude, visibility, preset, errors, streams, schemas, validation, config",
    ],
    ["title", "the option title has no value: options are name=value"],
    ["title=a,title=b", "the option title is set more than once"],
    ["output=x.txt", 'the option output must be the name of a file that ends with .json, .yaml or .yml, not "x.txt"'],
    [
      "preset=grpc-gateway",
      'the option preset must be "grpcGateway", "envoy", "vanguard" or "google", not "grpc-gateway"',
    ],
    ["errors=x", 'the option errors must be "plain", "problem", "status" or "google", not "x"'],
    ["schemas=x", 'the option schemas must be "simple" or "exact", not "x"'],
    ["streams=x", 'the option streams must be "array", "results" or "lines", not "x"'],
    [
      "include=gatewaytest.v1.ThingService",
      'the option include selects no RPC by "gatewaytest.v1.ThingService"; the services are gatewaytest.v1.ThingsService',
    ],
    ["exclude=tag:Thing", 'the option exclude selects no RPC by "tag:Thing"; the tags are ThingsService'],
    ["connect=yes", 'the option connect must be "unannotated", "all" or "none", not "yes"'],
    ["include=*Service", 'the selector "*Service" is neither the name of an RPC nor a prefix that ends with ".*"'],
  ])("that is wrong is an error: %s", async (parameter, error) => {
    expect(await runThings(parameter)).toMatchObject({ error, document: undefined });
  });

  test("that is wrong is printed by buf", async () => {
    await expect(generateWithBuf(things, "e.json", ["vresion=1"])).rejects.toMatchObject({
      message: expect.stringContaining("there is no option vresion; did you mean version?"),
    });
  });
});

describe("a configuration file", () => {
  async function runWithConfig(config: unknown, more: string = "") {
    const file = join(folder, "config.json");
    await writeFile(file, typeof config === "string" ? config : JSON.stringify(config));
    const { error, ...result } = await runThings(`config=${file}${more}`);
    return { ...result, error: error?.replace(file, "config.json") };
  }

  const selector = "gatewaytest.v1.ThingsService.GetHeaders";

  test("with the preset google accepts templates of Google's", async () => {
    const rules = [
      { selector: "gatewaytest.v1.ThingsService.EchoThing", get: "/v1/{thing.text=docs/**}/{thing.small}" },
    ];
    const { error, document } = await runWithConfig({ preset: "google", rules });
    expect(error).toBe("");
    expect(Object.keys(document?.paths ?? {})).toContain("/v1/docs/{thing.text}/{thing.small}");
    expect((await runWithConfig({ preset: "google", googleTemplates: false, rules })).error).toContain("**");
  });

  test("has the options of openapi() and of the gateway", async () => {
    const { error, name, document } = await runWithConfig(
      {
        output: "things.yaml",
        info: { title: "Replaced", version: "3", license: { name: "MIT", identifier: "MIT" } },
        servers: [{ url: "https://a.example", description: "A" }],
        include: ["gatewaytest.v1.ThingsService"],
        preset: "vanguard",
        rules: [{ selector, get: "/h", options: { status: 202 } }],
        securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
        security: [
          { selector: "*", requirements: [{ bearer: [] }] },
          { selector, requirements: [] },
        ],
        tags: [{ selector, tags: ["Headers"] }],
        exclude: ["gatewaytest.v1.ThingsService.SendForm"],
        requestPathPrefix: "/api",
        connect: "all",
        examples: { ThingsService_OpenThing: { request: { "application/json": { one: { value: { id: "1" } } } } } },
      },
      ",title=Given",
    );
    expect({ error, name }).toEqual({ error: "", name: "things.yaml" });
    expect(document).toMatchObject({
      info: { title: "Given", version: "3", license: { name: "MIT" } },
      servers: [{ url: "https://a.example", description: "A" }],
      paths: {
        "/api/h": { get: { tags: ["Headers"], security: [], responses: { "202": {} } } },
        "/api/gatewaytest.v1.ThingsService/GetHeaders": { post: { tags: ["Headers"], security: [] } },
        "/api/things/open": {
          put: {
            security: [{ bearer: [] }],
            requestBody: { content: { "application/json": { examples: { one: {} } } } },
          },
        },
      },
      components: { schemas: { Status: {} }, securitySchemes: { bearer: { scheme: "bearer" } } },
    });
    expect(document?.paths).not.toHaveProperty("/api/things/headers");
    expect(document?.paths).not.toHaveProperty("/api/things/form");
    expect(await problemOf(document ?? {})).toBeUndefined();
  });

  test("describes errors that the server formats itself", async () => {
    const errorBody = { mediaType: "application/json", schema: { type: "object", title: "Mine" } };
    const { document } = await runWithConfig({ errorBody });
    expect(document?.components.schemas["Error"]).toEqual(errorBody.schema);
    expect((await runWithConfig({ errorBody, errors: "status" })).error).toBe(
      'the option errorBody requires errors formatted by a function; the option errors of the handler is "status"',
    );
  });

  test.each<[config: unknown, error: string]>([
    [
      "{",
      "the file of the option config, config.json: Expected property name or '}' in JSON at position 1 (line 1 column 2)",
    ],
    ["[]", "the file of the option config, config.json: it must be a JSON object"],
    [{ rule: [] }, "the file of the option config, config.json: there is no option rule; did you mean rules?"],
    [
      { servers: [{ uri: "/" }] },
      "the file of the option config, config.json: the option servers must be an array of objects with a url, not [an object]",
    ],
    [
      { security: [{ selector: "*" }] },
      "the file of the option config, config.json: the option security[0].requirements is missing: it must be an array of objects",
    ],
    [
      { rules: [{ selector, gets: "/" }] },
      'the option rules[0]: cannot decode message google.api.HttpRule from JSON: key "gets" is unknown',
    ],
    [{ rules: [{ selector: "a.b.C", get: "/" }] }, 'the selector "a.b.C" matches no registered RPC'],
    [{ examples: { Nothing: {} } }, "there are examples for Nothing, but no such operation"],
    [
      { errorMessages: [{ selector: "*", messages: ["a.B"] }] },
      "the option errorMessages has a.B, which no file of the services declares or imports",
    ],
  ])("that is wrong is an error: %j", async (config, error) => {
    expect(await runWithConfig(config)).toMatchObject({ error, document: undefined });
  });

  test("that is missing is an error", async () => {
    expect(await runThings("config=none.json")).toMatchObject({
      error: "the file of the option config, none.json: ENOENT: no such file or directory, open 'none.json'",
    });
  });
});

test.each([
  ["EtagService", 'gatewaytest.v1.Plain has no scalar field "missing" for the ETag'],
  ["TemplateService", "can't serve rpc gatewaytest.v1.TemplateService.Call over HTTP"],
  ["ConflictService", "CallTwo matches the same requests as /v1/{name=things/*}:go of rpc"],
])("a rule that could not be served is an error: %s", async (name, error) => {
  const parameter = `include=gatewaytest.v1.${name}`;
  const result = run(await build(things), ["gatewaytest/v1/invalid.proto"], parameter);
  expect(result).toMatchObject({ error: expect.stringContaining(error), document: undefined });
});

test("files without services have no document", async () => {
  const set = await build(things);
  expect(run(set, ["google/api/http.proto"], "include=a.b.C")).toMatchObject({ error: "", document: undefined });
});

test("services without annotations are described as Connect serves them, unless the option says none", async () => {
  const text = `syntax = "proto3";
package plain.v1;
// Finds things.
service PlainService {
  // Finds one.
  rpc Find(Thing) returns (Thing);
  rpc Watch(Thing) returns (stream Thing);
}
message Thing {
  string id = 1;
}`;
  const set = await compileProto(text);
  const { document, error } = run(set, ["test.proto"], "");
  expect(error).toBe("");
  expect(document).toMatchObject({
    info: { title: "plain.v1", version: "v1" },
    tags: [{ name: "PlainService", description: "Finds things." }],
    paths: {
      "/plain.v1.PlainService/Find": { post: { summary: "Finds one" } },
      "/plain.v1.PlainService/Watch": { post: { operationId: "PlainService_Watch" } },
    },
  });
  expect(await problemOf(document ?? {})).toBeUndefined();
  expect(run(set, ["test.proto"], "connect=none")).toMatchObject({ error: "", document: undefined });
});

describe("a file of any syntax", () => {
  const declarations = (optional: string) => `
import "google/api/annotations.proto";

// Keeps shelves.
// In order.
service ShelfService {
  // Gets a shelf. It must exist.
  // (-- api-linter: core::0131=disabled
  //     aip.dev/not-precedent: Internal. --)
  // buf:lint:ignore RPC_REQUEST_STANDARD_NAME
  rpc GetShelf(Shelf) returns (Shelf) {
    option (google.api.http) = {get: "/v1/{name}"};
    option deprecated = true;
  }
}

// A shelf of books.
message Shelf {
  // The name
  // of the shelf.
  string name = 1;
  ${optional}string theme = 2 [deprecated = true]; // Its theme.
  // How it is sorted.
  Order order = 3;
}

// An order of books.
enum Order {
  // None.
  ORDER_UNSPECIFIED = 0;
  // By their titles.
  ORDER_TITLE = 1;
}`;

  test.each([
    ['syntax = "proto3"', "optional "],
    ['edition = "2023"', ""],
    ['edition = "2024"', ""],
  ])("%s: comments are descriptions, also of types, fields and values", async (syntax, optional) => {
    const module = await mkdtemp(join(folder, "module-"));
    for (const name of ["google/api/annotations.proto", "google/api/http.proto"]) {
      await mkdir(dirname(join(module, name)), { recursive: true });
      const text = await readFile(join(root, "packages/gateway/proto", name));
      await writeFile(join(module, name), text);
      await chmod(join(module, name), 0o600);
    }
    await writeFile(join(module, "shelf.proto"), `${syntax};\npackage shelves.v2;\n${declarations(optional)}`);
    const document = JSON.parse(await generateWithBuf(module, "shelf.json")) as OpenApiDocument;
    expect(document).toMatchObject({
      info: { title: "shelves.v2", version: "v2" },
      tags: [{ name: "ShelfService", description: "Keeps shelves.\nIn order." }],
      paths: {
        "/v1/{name}": {
          get: {
            deprecated: true,
            summary: "Gets a shelf",
            description: "Gets a shelf. It must exist.",
            parameters: [
              { name: "name", in: "path", description: "The name\nof the shelf." },
              { name: "theme", in: "query", deprecated: true, description: "Its theme." },
              { name: "order", in: "query", description: expect.stringContaining("How it is sorted.") },
            ],
          },
        },
      },
      components: {
        schemas: {
          Shelf: {
            description: "A shelf of books.",
            properties: { name: { description: "The name\nof the shelf." }, theme: { deprecated: true } },
          },
          Order: {
            description: "An order of books.\n\n- `ORDER_UNSPECIFIED`: None.\n- `ORDER_TITLE`: By their titles.",
          },
        },
      },
    });
    expect(await problemOf(document)).toBeUndefined();
  });

  test("is supported", async () => {
    expect(await runThings("")).toMatchObject({
      supportedFeatures: BigInt(
        CodeGeneratorResponse_Feature.PROTO3_OPTIONAL | CodeGeneratorResponse_Feature.SUPPORTS_EDITIONS,
      ),
      minimumEdition,
      maximumEdition,
    });
  });
});
