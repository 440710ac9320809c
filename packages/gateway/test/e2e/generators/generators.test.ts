import { fromBinary, type DescMessage, type JsonObject } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { succeed } from "../../../../../test/examples/execute.ts";
import { openapi, readComments, type OpenApiOptions } from "../../../src/index.ts";
import { FindGadgetsRequestSchema, GadgetSchema, GadgetsService } from "../../gen/gadgets/v1/gadgets_pb.ts";
import { callDirectly, normalize, type Outcomes } from "./direct-calls.ts";
import { openGadgetsServer, options, type GadgetsServer } from "./gadgets-server.ts";
import {
  compileJavaSources,
  generateOgen,
  generators,
  openapiGeneratorClients,
  runOpenapiGenerator,
  type Build,
  type Command,
} from "./generators.ts";
import { findTools, Missing, modules, type Tools } from "./tools.ts";

const tools = await findTools();
for (const [name, tool] of Object.entries(tools)) {
  if (tool instanceof Missing) {
    process.stderr.write(`The tests of clients that need ${name} are skipped: ${tool.reason}\n`);
  }
}
const serviceDocument = join(import.meta.dirname, "../../../../../openapi.json");
const areMissing = (names: readonly (keyof Tools)[]): boolean => names.some((name) => tools[name] instanceof Missing);

type Observation = { readonly outcomes: Outcomes; readonly received: GadgetsServer["received"] };

let folder: string;
let direct: Observation;
/** openapi-generator, run once for all of its clients, and for one of exact schemas. */
let generated: Promise<void> | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "flowgate-generators-"));
  await writeFile(join(folder, "simple.json"), describeGadgets("simple"));
  await writeFile(join(folder, "exact.json"), describeGadgets("exact"));
  direct = await observe((url) => callDirectly(url));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

function describeGadgets(schemas: NonNullable<OpenApiOptions["schemas"]>): string {
  const proto = join(import.meta.dirname, "../../proto");
  const args = ["build", "--as-file-descriptor-set", "-o", "-", "--path", join(proto, "gadgets")];
  const root = join(modules, "..");
  const set = execFileSync(join(modules, ".bin/buf"), args, { cwd: root, maxBuffer: 16 * 1024 * 1024 });
  const comments = readComments(fromBinary(FileDescriptorSetSchema, set));
  const info = { title: "Gadgets", version: "1.0.0" };
  const document = openapi(
    { ...options, routes: (router) => router.service(GadgetsService, {}) },
    { info, comments, schemas },
  );
  return JSON.stringify(document);
}

async function observe(call: (url: string) => Promise<Outcomes>): Promise<Observation> {
  await using server = await openGadgetsServer();
  return { outcomes: normalize(await call(server.url)), received: server.received };
}

async function runClient([program, args]: Command): Promise<Observation> {
  return await observe(async (url) => JSON.parse(await succeed(program, [...args, url])) as Outcomes);
}

const output = (): string => join(folder, "openapi-generator");

async function openapiGenerator(name: string): Promise<string> {
  const simple = openapiGeneratorClients.map((like) => [like, { document: join(folder, "simple.json"), like }]);
  generated ??= runOpenapiGenerator(
    tools.openapiGenerator as string,
    {
      ...Object.fromEntries(simple),
      exact: { document: join(folder, "exact.json"), like: "openapi-generator-python" },
      service: { document: serviceDocument, like: "openapi-generator-java" },
    },
    output(),
  );
  await generated;
  return join(output(), name);
}

/** The names of the fields that a message in JSON does not have, unless it has another member of their oneof. */
function unsetFields(desc: DescMessage, message: JsonObject | undefined): string[] {
  const isSet = ({ jsonName }: { readonly jsonName: string }): boolean => message?.[jsonName] !== undefined;
  return desc.fields
    .filter((field) => !(field.oneof?.fields.some((other) => isSet(other)) ?? isSet(field)))
    .map(({ name }) => name);
}

test("the calls that those of the clients are compared with set every field", () => {
  const { outcomes, received } = direct;
  expect(unsetFields(GadgetSchema, received["CheckGadget"]?.[0])).toEqual([]);
  expect(unsetFields(GadgetSchema, outcomes["get"] as JsonObject)).toEqual([]);
  expect(unsetFields(FindGadgetsRequestSchema, received["FindGadgets"]?.[0])).toEqual([]);
  expect(Object.keys(received).toSorted()).toEqual(GadgetsService.methods.map(({ name }) => name).toSorted());
  expect(outcomes["missing"]).toMatchObject({ status: 404, body: { code: "not_found", details: [{}, {}] } });
});

describe.each(generators)("a client of $name", ({ name, needs, build }) => {
  describe.skipIf(areMissing(needs))("compiles, and", () => {
    let client: Observation;
    beforeAll(async () => {
      const command = await build({
        tools: tools as Build["tools"],
        document: join(folder, "simple.json"),
        folder: join(folder, name),
        openapiGenerator,
      });
      client = await runClient(command);
    });

    test("sends every field", () => {
      expect(client.received).toEqual(direct.received);
    });

    test("returns every field", () => {
      expect(client.outcomes).toEqual(direct.outcomes);
    });
  });
});

describe("clients of the document of Flowgate itself compile", () => {
  test.skipIf(areMissing(["openapiGenerator", "jars"]))("by openapi-generator for Java", async () => {
    const sources = await openapiGenerator("service");
    const compiled = compileJavaSources(tools as Build["tools"], sources, join(folder, "service-java"));
    await expect(compiled).resolves.toBeUndefined();
  });

  test.skipIf(areMissing(["go"]))("by ogen", async () => {
    const generated = generateOgen(tools.go as string, serviceDocument, join(folder, "service-ogen"), "flowgate");
    await expect(generated).resolves.toBeUndefined();
  });
});

test.skipIf(areMissing(["openapiGenerator", "python"]))(
  "a client of openapi-generator for Python loses fields with exact schemas",
  async () => {
    const program = join(import.meta.dirname, "clients/openapi-generator-python/fields.py");
    const part = { label: "a", paint: "b" };
    const fieldsOf = async (client: string): Promise<unknown> => {
      const env = { PYTHONPATH: await openapiGenerator(client) };
      return JSON.parse(
        await succeed(tools.python as string, ["-W", "ignore", program, JSON.stringify(part)], { env }),
      );
    };
    expect(await fieldsOf("exact")).toEqual({});
    expect(await fieldsOf("openapi-generator-python")).toEqual(part);
  },
);
