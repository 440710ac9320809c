import { createRegistry, type DescMessage, type Message } from "@bufbuild/protobuf";
import { createJsonEncoder } from "@flowgate/gateway";
import { file_flowgate_v1_audit } from "../../../gen/flowgate/v1/audit_pb.ts";
import { file_flowgate_v1_context } from "../../../gen/flowgate/v1/context_pb.ts";
import { file_flowgate_v1_diff } from "../../../gen/flowgate/v1/diff_pb.ts";
import { file_flowgate_v1_events } from "../../../gen/flowgate/v1/events_pb.ts";
import { file_flowgate_v1_flows } from "../../../gen/flowgate/v1/flows_pb.ts";
import { file_flowgate_v1_modules } from "../../../gen/flowgate/v1/modules_pb.ts";
import { file_flowgate_v1_proposals } from "../../../gen/flowgate/v1/proposals_pb.ts";
import { file_flowgate_v1_revisions } from "../../../gen/flowgate/v1/revisions_pb.ts";
import { file_flowgate_v1_runtime } from "../../../gen/flowgate/v1/runtime_pb.ts";
import { file_flowgate_v1_settings } from "../../../gen/flowgate/v1/settings_pb.ts";
import { file_flowgate_v1_tokens } from "../../../gen/flowgate/v1/tokens_pb.ts";
import { printableData } from "../printable.ts";

/** The contract with the options that the descriptors of @flowgate/client lack. */
const registry = createRegistry(
  file_flowgate_v1_audit,
  file_flowgate_v1_context,
  file_flowgate_v1_diff,
  file_flowgate_v1_events,
  file_flowgate_v1_flows,
  file_flowgate_v1_modules,
  file_flowgate_v1_proposals,
  file_flowgate_v1_revisions,
  file_flowgate_v1_runtime,
  file_flowgate_v1_settings,
  file_flowgate_v1_tokens,
);

/** What -o prints for programs. */
export type OutputFormat = "json" | "yaml";

/** Compiling one takes longer than using it. */
const encoders = new Map<DescMessage, (message: Message) => Uint8Array>();

/** The JSON value of a message as the REST API has it. */
function toJson(schema: DescMessage, message: Message): unknown {
  const encode = encoders.getOrInsertComputed(schema, () =>
    createJsonEncoder(registry.getMessage(schema.typeName) ?? schema),
  );
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
