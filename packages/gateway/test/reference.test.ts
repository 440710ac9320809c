import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { presets } from "../src/index.ts";

const read = (file: string): Promise<string> => readFile(join(import.meta.dirname, "..", file), "utf8");
const document = (await Promise.all(["docs/reference.md", "docs/openapi.md"].map(read))).join("\n");

test("the reference has a row for every option, and for no other", async () => {
  const sources: [heading: string, file: string, type: string][] = [
    ["GatewayOptions", "src/options/options.ts", "GatewayOptions"],
    ["HealthOptions", "src/options/options.ts", "HealthOptions"],
    ["AdapterOptions", "src/adapters/adapter.ts", "AdapterOptions"],
    ["FetchHandlerOptions", "src/adapters/fetch/handler.ts", "FetchHandlerOptions"],
    ["JsonOptions", "src/json/json-options.ts", "JsonOptions"],
    ["CompressionOptions", "src/options/options.ts", "CompressionOptions"],
    ["CorsOptions", "src/http/cors.ts", "CorsOptions"],
    ["OpenApiOptions", "src/openapi/options.ts", "OpenApiOptions"],
    ["Parameters", "src/plugin/parameters.ts", "Parameters"],
    ["PluginConfig", "src/plugin/options.ts", "PluginConfig"],
    ["RestTransportOptions", "src/client/options.ts", "RestTransportOptions"],
    ["GatewayRequest", "src/http/request.ts", "GatewayRequest"],
    ["GatewayError", "src/errors/format.ts", "GatewayError"],
  ];
  for (const [heading, file, type] of sources) {
    const keys = keysOf(await read(file), type);
    // A request includes what its call needs to know.
    const more = type === "GatewayRequest" ? keysOf(await read(file), "CallOrigin") : [];
    expect({ heading, rows: rowsOf(heading).toSorted() }).toEqual({ heading, rows: [...keys, ...more].toSorted() });
  }
});

test("the reference has a row for every option of flowgate.gateway.v1, and for no other", async () => {
  const proto = await read("proto/flowgate/gateway/v1/annotations.proto");
  const messages = [...proto.matchAll(/^message (\w+) \{\n(.*?)^\}/gms)];
  expect(messages.length).toBeGreaterThan(5);
  for (const [, name = "", body = ""] of messages) {
    const fields = [...body.matchAll(/^ {2}(?:repeated )?\w+ (\w+) = \d+;/gm)].map(([, field = ""]) => field);
    expect({ name, rows: rowsOf(name).toSorted() }).toEqual({ name, rows: fields.toSorted() });
  }
});

test("the presets that the document names are those that there are", async () => {
  expect(rowsOf("presets")).toEqual(Object.keys(presets));
});

/** The names of the properties of an object type, where it is declared. */
function keysOf(source: string, type: string): string[] {
  const start = source.search(new RegExp(`^(?:export )?type ${type}(?:<.*>)? =`, "m"));
  const body = source.slice(start, source.indexOf("\n};", start));
  const keys = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(]/gm)].map(([, key = ""]) => key);
  expect({ type, keys }).not.toEqual({ type, keys: [] });
  return keys;
}

/** The first cells of the table under a heading that names `name` as code. */
function rowsOf(name: string): string[] {
  const section = document.split(/^#{2,4} /m).find((each) => each.split("\n", 1)[0]?.includes(`\`${name}\``));
  if (section === undefined) {
    throw new Error(`there is no heading for ${name}`);
  }
  return [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, cell = ""]) => cell);
}
