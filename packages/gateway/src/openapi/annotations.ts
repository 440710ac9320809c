import type { DescEnum, DescEnumValue, DescField, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import type { SchemaUse } from "./components.ts";
import type { Schema } from "./document.ts";
import type { ReadOption } from "./named-options.ts";

type Restrictable = DescService | DescMethod | DescMessage | DescField | DescEnum | DescEnumValue;

/** The options of google.api that describe declarations beyond their HTTP rules. */
export type Annotations = {
  /** True if a declaration has no google.api.visibility restriction, or one with a label that the document is for. */
  isVisible(desc: Restrictable): boolean;
  /** The keywords and notes that google.api.field_behavior adds to the schema of a property. */
  behaviorOf(field: DescField): { readonly keywords: Schema; readonly notes: readonly string[] };
  isRequired(field: DescField, use: SchemaUse): boolean;
  isOutputOnly(field: DescField): boolean;
};

/** The schema form of each google.api.FieldBehavior. REQUIRED becomes `required` of the message. */
const behaviors: Readonly<Record<string, { readonly keywords?: Schema; readonly note?: string }>> = {
  OUTPUT_ONLY: { keywords: { readOnly: true } },
  INPUT_ONLY: { keywords: { writeOnly: true } },
  IMMUTABLE: { note: "Can't be changed once it is set." },
  IDENTIFIER: { note: "Identifies the resource." },
  UNORDERED_LIST: { note: "The order of the items has no meaning." },
  NON_EMPTY_DEFAULT: { note: "Has a default value that is not empty." },
};

const visibilityOptions: Readonly<Record<Restrictable["kind"], string>> = {
  service: "google.api.api_visibility",
  rpc: "google.api.method_visibility",
  message: "google.api.message_visibility",
  field: "google.api.field_visibility",
  enum: "google.api.enum_visibility",
  enum_value: "google.api.value_visibility",
};

export function createAnnotations(readOption: ReadOption, labels: readonly string[]): Annotations {
  const behaviorsOf = (field: DescField): readonly string[] =>
    (readOption(field, "google.api.field_behavior") ?? []) as string[];

  const hasLabel = (desc: Restrictable): boolean => {
    const rule = readOption(desc, visibilityOptions[desc.kind]) as { readonly restriction?: string } | undefined;
    const restriction = rule?.restriction?.split(",").map((label) => label.trim()) ?? [];
    return restriction.length === 0 || restriction.some((label) => labels.includes(label));
  };

  return {
    isVisible(desc) {
      const type = desc.kind === "field" ? (desc.message ?? desc.enum) : undefined;
      return hasLabel(desc) && (type === undefined || hasLabel(type));
    },
    behaviorOf(field) {
      const found = behaviorsOf(field).map((name) => behaviors[name] ?? {});
      return {
        keywords: Object.assign({}, ...found.map(({ keywords }) => keywords)) as Schema,
        notes: found.flatMap(({ note }) => note ?? []),
      };
    },
    isRequired(field, { direction, partial }) {
      return (
        direction === "request" &&
        partial !== "all" &&
        field.oneof === undefined &&
        behaviorsOf(field).includes("REQUIRED")
      );
    },
    isOutputOnly: (field) => behaviorsOf(field).includes("OUTPUT_ONLY"),
  };
}
