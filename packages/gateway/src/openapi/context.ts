import type { DescField, DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import type { Comments } from "./comments.ts";
import type { SecurityRequirement } from "./document.ts";
import type { ErrorResponses } from "./error-schemas.ts";
import type { Schemas } from "./schema.ts";
import type { StreamJson } from "./stream.ts";

/** The context that all operations of a document share. */
export type OperationContext = {
  readonly schemas: Schemas;
  readonly comments: Comments;
  readonly errors: ErrorResponses;
  readonly streamJson: StreamJson;
  /** Whether unknown keys of request bodies are ignored, whatever the option of the method. */
  readonly ignoreUnknownFields: boolean;
  /** Finds a message by its full name, for options that refer to one. */
  readonly findMessage: (typeName: string) => DescMessage | undefined;
  /** Further messages with the `error` option that calls of a method can fail with, such as those of a gate. */
  readonly errorMessages: (method: DescMethod) => readonly DescMessage[];
  readonly security: (method: DescMethod) => readonly SecurityRequirement[] | undefined;
};

export function fieldOf(desc: DescMessage, name: string): DescField | undefined {
  return desc.fields.find((each) => each.name === name);
}

/** The field paths that are bound to the path. */
export function boundPaths({ template }: Route): ReadonlySet<string> {
  return new Set(template.variables.map(({ fieldPath }) => fieldPath));
}
