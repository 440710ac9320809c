import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { isObject } from "../json/object.ts";
import {
  aFunction,
  anObject,
  arrayOf,
  either,
  oneOf,
  required,
  type ChecksOf,
  type OptionCheck,
} from "../options/check-options.ts";
import type { Comments } from "./comments.ts";
import type { Info, Schema, SecurityRequirement, Server } from "./document.ts";
import type { ErrorBody } from "./error-schemas.ts";
import type { Examples } from "./examples.ts";
import type { SchemaForm } from "./scalar-schema.ts";
import type { Selected } from "./selection.ts";
import type { ValidationForm } from "./validation.ts";

export type OpenApiOptions = {
  readonly info: Info;
  /** Default: `/`, the server of the document. */
  readonly servers?: readonly Server[];
  /** The comments of the .proto files for descriptions, see `readComments`. Default: none. */
  readonly comments?: Comments;
  /**
   * The RPCs described as Connect serves them, at `/package.Service/Method`: RPCs without a google.api.http rule, all,
   * or none. None if the handler's `protocols` lack "connect". Default: "unannotated", so that each RPC is described
   * once.
   */
  readonly connect?: "unannotated" | "all" | "none";
  /**
   * The RPCs to describe: full names of packages, services or RPCs, prefixes that end with `.*`, or `tag:` with the name of a tag.
   * Default: all.
   */
  readonly include?: readonly string[];
  /** The RPCs to leave out, in the same way. Default: none. */
  readonly exclude?: readonly string[];
  /**
   * The labels of google.api.visibility that the document is for. What is restricted to other labels is left out: services, RPCs,
   * messages, fields, enums and their values. Default: none.
   */
  readonly visibility?: readonly string[];
  /** The tags of operations. For an RPC, the last selector that matches it applies. Default: the name of the service. */
  readonly tags?: Selected<{ readonly tags: readonly string[] }>;
  /**
   * "simple": schemas that code generators understand. A message has one schema for requests and responses, an enum is its names, a
   * number is a number (not also "NaN"), and that at most one member of a oneof is set is in the description and in `x-oneofs`.
   * "exact": schemas that accept just the JSON that is accepted and written. Default: "simple".
   */
  readonly schemas?: SchemaForm;
  /**
   * The form of protovalidate (buf.validate) rules: "keywords" of schemas, with descriptions where there is no keyword;
   * "descriptions" only, for responses that do not follow the rules; or "none". Default: "keywords".
   */
  readonly validation?: ValidationForm;
  /** The body of errors, if the handler formats them by a function. */
  readonly errorBody?: ErrorBody;
  /**
   * Messages with the `error` option with which calls can fail besides the `request_error` of the method, such as a
   * gate's: for selectors, their full names; or a function.
   */
  readonly errorMessages?:
    | Selected<{ readonly messages: readonly string[] }>
    | ((method: DescMethod) => readonly DescMessage[]);
  /** Security Scheme Objects of OpenAPI, by name. Default: none. */
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
  /**
   * The Security Requirement Objects of operations; an empty array means none. The last selector that matches an RPC
   * applies; or a function. If none matches, its operations have no `security` member.
   */
  readonly security?:
    | Selected<{ readonly requirements: readonly SecurityRequirement[] }>
    | ((method: DescMethod) => readonly SecurityRequirement[] | undefined);
  /** Examples of requests and responses, by operationId. An example without a matching operation is an Error. */
  readonly examples?: Examples;
};

const isString = (value: unknown): boolean => typeof value === "string";

export const aString: OptionCheck = { allowed: "a string", accepts: isString };
export const strings: OptionCheck = arrayOf("strings", isString);
const anyObject: OptionCheck = { allowed: "an object", accepts: isObject };

/** Objects with a selector and one more property. */
function selected(name: string, check: OptionCheck): OptionCheck {
  const entry = anObject({ selector: required(aString), [name]: required(check) });
  return arrayOf("objects", isObject, entry);
}

/** Restores the check of the items, which `either` does not keep. */
function orFunction(list: OptionCheck): OptionCheck {
  return { ...either(list, aFunction), items: list.items };
}

export const openApiOptionChecks: ChecksOf<OpenApiOptions> = {
  info: required({
    allowed: "an object with title and version",
    accepts: (value) => isObject(value) && ["title", "version"].every((name) => isString(value[name])),
  }),
  servers: arrayOf("objects with a url", (item) => isObject(item) && isString(item["url"])),
  comments: aFunction,
  connect: oneOf("unannotated", "all", "none"),
  include: strings,
  exclude: strings,
  visibility: strings,
  tags: selected("tags", strings),
  schemas: oneOf("simple", "exact"),
  validation: oneOf("keywords", "descriptions", "none"),
  errorBody: anObject({ mediaType: required(aString), schema: required(anyObject) }),
  errorMessages: orFunction(selected("messages", strings)),
  securitySchemes: anyObject,
  security: orFunction(selected("requirements", arrayOf("objects", isObject))),
  examples: anyObject,
};
