import type { DescField, DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import type { Comments } from "./comments.ts";
import type { SecurityRequirement } from "./document.ts";
import type { ErrorResponses } from "./error-schemas.ts";
import type { Schemas } from "./schema.ts";
import type { StreamJson } from "./stream.ts";

/** What all operations of a document are described with. */
export type OperationContext = {
  readonly schemas: Schemas;
  readonly comments: Comments;
  readonly errors: ErrorResponses;
  readonly streamJson: StreamJson;
  /** Finds a message by its full name, for the options that name one. */
  readonly findMessage: (typeName: string) => DescMessage | undefined;
  /** More messages with the `error` option that end calls of a method: of a gate, say. */
  readonly errorShapes: (method: DescMethod) => readonly DescMessage[];
  readonly security: (method: DescMethod) => readonly SecurityRequirement[] | undefined;
};

export function fieldOf(desc: DescMessage, name: string): DescField | undefined {
  return desc.fields.find((each) => each.name === name);
}

/** The fields that the path fills, by their names in the .proto. */
export function boundPaths({ template }: Route): ReadonlySet<string> {
  return new Set(template.variables.map(({ fieldPath }) => fieldPath));
}
