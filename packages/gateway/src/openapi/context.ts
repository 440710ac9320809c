import type { DescField, DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { StreamFormats } from "../options/options.ts";
import type { Route } from "../routing/route.ts";
import type { Comments } from "./comments.ts";
import type { SchemaUse, SchemaUses } from "./components.ts";
import type { OperationObject, SecurityRequirement } from "./document.ts";
import type { ErrorResponses } from "./error-schemas.ts";
import type { Schemas } from "./schema.ts";

export type OperationContext = {
  readonly schemas: Schemas;
  readonly comments: Comments;
  readonly errors: ErrorResponses;
  readonly streams: StreamFormats;
  readonly unknownQuery: "reject" | "ignore";
  readonly ignoredQuery: readonly string[];
  readonly readMaxBytes: number;
  /** The JSON of a method's messages, with the options that it was registered with. */
  readonly usesOf: (method: DescMethod, isRpc?: boolean) => SchemaUses;
  readonly findMessage: (typeName: string) => DescMessage | undefined;
  /** Further messages with the `error` option with which calls of a method can fail, such as a gate's. */
  readonly errorMessages: (method: DescMethod) => readonly DescMessage[];
  readonly security: (method: DescMethod) => readonly SecurityRequirement[] | undefined;
  readonly tagsOf: (method: DescMethod) => readonly string[];
};

/** An operation of the document, which is described when its operationId is known. */
export type DocumentOperation = {
  readonly method: DescMethod;
  readonly httpMethod: string;
  readonly path: string;
  readonly describe: (operationId: string) => OperationObject;
};

export function fieldOf(desc: DescMessage, name: string): DescField | undefined {
  return desc.fields.find((each) => each.name === name);
}

/** The field paths that are bound to the path. */
export function boundPaths({ template }: Route): ReadonlySet<string> {
  return new Set(template.variables.map(({ fieldPath }) => fieldPath));
}

/**
 * Returns the messages of a request that may have a part of their fields. A request with a FieldMask has the changed
 * message in a field (AIP-134).
 */
export function partialOf({ input }: DescMethod, isPatch: boolean): SchemaUse["partial"] {
  if (input.fields.some(({ message }) => message?.typeName === "google.protobuf.FieldMask")) {
    return "nested";
  }
  return isPatch ? "all" : "none";
}
