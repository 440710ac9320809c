import { readFileSync } from "node:fs";
import { fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import type { Info, Schema, SecurityRequirement, Server } from "../openapi/document.ts";
import type { ErrorBody } from "../openapi/error-schemas.ts";
import type { JsonOptions } from "../json/json-options.ts";
import type { Examples } from "../openapi/examples.ts";
import type { OpenApiOptions } from "../openapi/openapi.ts";
import type { SchemaForm } from "../openapi/scalar-schema.ts";
import type { StreamJson } from "../openapi/stream.ts";
import type { Rule } from "../routing/routes.ts";
import {
  aBoolean,
  anObject,
  arrayOf,
  checkOptions,
  oneOf,
  required,
  type ChecksOf,
  type OptionCheck,
} from "../options/check-options.ts";
import { gatewayOptionChecks } from "../options/option-checks.ts";
import { presets } from "../options/presets.ts";
import { parseParameter, type Parameters } from "./parameters.ts";

/** The complete options of the plugin. */
export type PluginOptions = {
  /** The file to write, in the folder `out` of protoc or buf. */
  readonly output: string;
  readonly info: Partial<Info>;
  readonly servers: readonly Server[];
  /** Full names of services, or prefixes such as `acme.v1.*`; empty for all. */
  readonly services: readonly string[];
  /** What a preset sets of the options of `openapi()`, with what replaces it. */
  readonly format: Pick<OpenApiOptions, "errors" | "streams" | "jsonOptions" | "schemas">;
  readonly rules: readonly Rule[];
  readonly strictTemplates: boolean;
  readonly googleTemplates: boolean;
  readonly securitySchemes: Readonly<Record<string, Schema>> | undefined;
  /** The last selector that matches a method decides. */
  readonly security: readonly { readonly selector: string; readonly requirements: readonly SecurityRequirement[] }[];
  readonly errorMessages: readonly { readonly selector: string; readonly messages: readonly string[] }[];
  readonly examples: Examples;
};

/** The options in a JSON file. Those that the parameter has too are replaced by it. */
type ConfigFile = {
  readonly output?: string;
  readonly info?: Partial<Info>;
  readonly servers?: readonly Server[];
  readonly services?: readonly string[];
  readonly preset?: keyof typeof presets;
  readonly errors?: ErrorBody;
  readonly streams?: { readonly json?: StreamJson };
  readonly schemas?: SchemaForm;
  /** In the JSON of google.api.HttpRule, with the `options` of the gateway's rules. */
  readonly rules?: readonly JsonObject[];
  readonly strictTemplates?: boolean;
  readonly googleTemplates?: boolean;
  readonly jsonOptions?: JsonOptions;
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
  readonly security?: PluginOptions["security"];
  readonly errorMessages?: PluginOptions["errorMessages"];
  readonly examples?: Examples;
};

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);
const isString = (value: unknown): boolean => typeof value === "string";
const aString: OptionCheck = { allowed: "a string", accepts: isString };
const anyObject: OptionCheck = { allowed: "an object", accepts: isObject };
const anOutput: OptionCheck = {
  allowed: "the name of a file that ends with .json, .yaml or .yml",
  accepts: (value) => isString(value) && /\.(?:json|ya?ml)$/.test(String(value)),
};
const aPreset = oneOf(...Object.keys(presets));
const anErrorFormat = oneOf("plain", "problem", "status", "google");
const aStreamFormat = oneOf("array", "results", "lines");
const aSchemaForm = oneOf("simple", "exact");
const strings = arrayOf("strings", isString);

const parameterChecks: ChecksOf<Parameters> = {
  output: anOutput,
  title: aString,
  version: aString,
  description: aString,
  servers: strings,
  services: strings,
  preset: aPreset,
  errors: anErrorFormat,
  streams: aStreamFormat,
  schemas: aSchemaForm,
  config: aString,
};

const configChecks: ChecksOf<ConfigFile> = {
  output: anOutput,
  info: anyObject,
  servers: arrayOf("objects", isObject, anObject({ url: required(aString), description: aString })),
  services: strings,
  preset: aPreset,
  errors: {
    allowed: `${anErrorFormat.allowed}, or {mediaType, schema}`,
    accepts: (value) => anErrorFormat.accepts(value) || isObject(value),
    properties: { mediaType: required(aString), schema: required(anyObject) },
  },
  streams: anObject({ json: aStreamFormat }),
  schemas: aSchemaForm,
  rules: arrayOf("objects", isObject),
  strictTemplates: aBoolean,
  googleTemplates: aBoolean,
  jsonOptions: gatewayOptionChecks.jsonOptions,
  securitySchemes: anyObject,
  security: arrayOf(
    "objects",
    isObject,
    anObject({ selector: required(aString), requirements: required(arrayOf("objects", isObject)) }),
  ),
  errorMessages: arrayOf("objects", isObject, anObject({ selector: required(aString), messages: required(strings) })),
  examples: anyObject,
};

/** Reads the parameter of the plugin, and the file that it names. Throws an Error that names what is wrong. */
export function readOptions(parameter: string): PluginOptions {
  const given = parseParameter(parameter);
  checkOptions(given, parameterChecks);
  const config = given.config === undefined ? {} : readConfig(given.config);
  const presetName = given.preset ?? config.preset;
  const preset = presetName === undefined ? {} : presets[presetName];
  const errors = given.errors ?? config.errors;
  const json = given.streams ?? config.streams?.json;
  const schemas = given.schemas ?? config.schemas;
  const { title, version, description } = given;
  return {
    output: given.output ?? config.output ?? "openapi.json",
    info: {
      ...config.info,
      ...(title === undefined ? {} : { title }),
      ...(version === undefined ? {} : { version }),
      ...(description === undefined ? {} : { description }),
    },
    servers: given.servers?.map((url) => ({ url })) ?? config.servers ?? [],
    services: given.services ?? config.services ?? [],
    format: {
      ...preset,
      ...(errors === undefined ? {} : { errors }),
      ...(json === undefined ? {} : { streams: { json } }),
      ...(schemas === undefined ? {} : { schemas }),
      ...(config.jsonOptions === undefined ? {} : { jsonOptions: config.jsonOptions }),
    },
    rules: (config.rules ?? []).map(readRule),
    strictTemplates: config.strictTemplates ?? false,
    googleTemplates: config.googleTemplates ?? "googleTemplates" in preset,
    securitySchemes: config.securitySchemes,
    security: config.security ?? [],
    errorMessages: config.errorMessages ?? [],
    examples: config.examples ?? {},
  };
}

function readConfig(file: string): ConfigFile {
  try {
    const config = JSON.parse(readFileSync(file, "utf8")) as JsonValue;
    if (typeof config !== "object" || config === null || Array.isArray(config)) {
      throw new Error("it must be a JSON object");
    }
    checkOptions(config, configChecks);
    return config;
  } catch (cause) {
    throw new Error(`the file of the option config, ${file}: ${(cause as Error).message}`, { cause });
  }
}

function readRule({ options, ...rule }: JsonObject, index: number): Rule {
  try {
    return {
      ...fromJson(HttpRuleSchema, rule),
      ...(options === undefined ? {} : { options: fromJson(MethodRuleSchema, options) }),
    };
  } catch (cause) {
    throw new Error(`the option rules[${index}]: ${(cause as Error).message}`, { cause });
  }
}
