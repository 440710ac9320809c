import type { DescMessage, Message } from "@bufbuild/protobuf";
import { createJsonEncoder } from "@flowgate/gateway";
import { printableData } from "../printable.ts";

/** The output of `-o` for programs. */
export type OutputFormat = "json" | "yaml";

/** Compiling one takes longer than using it. */
const encoders = new Map<DescMessage, (message: Message) => Uint8Array>();

/** The JSON value of a message as the REST API has it. */
function toJson(schema: DescMessage, message: Message): unknown {
  const encode = encoders.getOrInsertComputed(schema, () => createJsonEncoder(schema));
  return JSON.parse(new TextDecoder().decode(encode(message)));
}

export type Serializer = {
  readonly toJson: typeof toJson;
  /** Without a line break at the end. */
  readonly format: (value: unknown) => string;
  /** One of several values: a line of JSON, or a YAML document. */
  readonly formatItem: (value: unknown) => string;
};

/** Loads only what the format needs. */
export async function createSerializer(format: OutputFormat): Promise<Serializer> {
  if (format === "json") {
    return {
      toJson,
      format: (value) => printableData(JSON.stringify(value, null, 2)),
      formatItem: (value) => printableData(JSON.stringify(value)),
    };
  }
  const [{ Document }, { formatYaml }] = await Promise.all([import("yaml"), import("../yaml.ts")]);
  const toYaml = (value: unknown): string =>
    formatYaml(new Document(value, { aliasDuplicateObjects: false })).trimEnd();
  return { toJson, format: toYaml, formatItem: (value) => `---\n${toYaml(value)}` };
}
