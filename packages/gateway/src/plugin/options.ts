import { readFileSync } from "node:fs";
import { fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { isObject } from "../json/object.ts";
import type { Info } from "../openapi/document.ts";
import { aString, openApiOptionChecks, strings, type OpenApiOptions } from "../openapi/options.ts";
import { arrayOf, checkOptions, oneOf, type ChecksOf, type OptionCheck } from "../options/check-options.ts";
import { gatewayOptionChecks } from "../options/option-checks.ts";
import type { GatewayOptions } from "../options/options.ts";
import { presets } from "../options/presets.ts";
import type { Rule } from "../routing/routes.ts";
import { parseParameter, type Parameters } from "./parameters.ts";

export type PluginOptions = {
  /** The file to write, in the folder `out` of protoc or buf. */
  readonly output: string;
  readonly info: Partial<Info>;
  readonly handler: Omit<GatewayOptions, "routes">;
  readonly document: Omit<OpenApiOptions, "info" | "comments">;
};

/** The options of `openapi` that can be in a file. */
type DocumentOptions = Omit<OpenApiOptions, "info" | "comments">;

/** The options of the handler that can be in a file, besides `rules`. */
const handlerOptions = [
  "requestPathPrefix",
  "protocols",
  "strictTemplates",
  "googleTemplates",
  "unknownQuery",
  "ignoredQuery",
  "readMaxBytes",
  "streams",
  "jsonOptions",
] as const satisfies readonly (keyof GatewayOptions)[];
type HandlerOptions = Pick<GatewayOptions, (typeof handlerOptions)[number]>;

type PluginConfig = {
  readonly output?: string;
  readonly info?: Partial<Info>;
  readonly preset?: keyof typeof presets;
  readonly errors?: NonNullable<Parameters["errors"]>;
  /** In the JSON of google.api.HttpRule, with the `options` of the gateway's rules. */
  readonly rules?: readonly JsonObject[];
};

/** The options in a JSON file. The parameter takes precedence. */
type ConfigFile = PluginConfig & HandlerOptions & DocumentOptions;

const anOutput: OptionCheck = {
  allowed: "the name of a file that ends with .json, .yaml or .yml",
  accepts: (value) => typeof value === "string" && /\.(?:json|ya?ml)$/.test(value),
};
const aPreset = oneOf(...Object.keys(presets));
const anErrorFormat = oneOf("plain", "problem", "status", "google");
const { comments: _comments, info: _info, ...documentChecks } = openApiOptionChecks;

const parameterChecks: ChecksOf<Parameters> = {
  output: anOutput,
  title: aString,
  version: aString,
  description: aString,
  servers: strings,
  connect: openApiOptionChecks.connect,
  include: strings,
  exclude: strings,
  visibility: strings,
  preset: aPreset,
  errors: anErrorFormat,
  streams: oneOf("array", "results", "lines"),
  schemas: openApiOptionChecks.schemas,
  validation: openApiOptionChecks.validation,
  config: aString,
};

const handlerChecks = Object.fromEntries(
  handlerOptions.map((name) => [name, gatewayOptionChecks[name]]),
) as ChecksOf<HandlerOptions>;

const configChecks: ChecksOf<ConfigFile> = {
  output: anOutput,
  info: { allowed: "an object", accepts: isObject },
  preset: aPreset,
  errors: anErrorFormat,
  rules: arrayOf("objects", isObject),
  ...handlerChecks,
  ...documentChecks,
};

/** Reads the parameter of the plugin, and the file that it names. Throws an Error that describes the problem. */
export function readOptions(parameter: string): PluginOptions {
  const given = parseParameter(parameter);
  checkOptions(given, parameterChecks);
  const { output, info, preset: presetName, errors, rules, ...config } = readConfigOf(given);
  const preset = presetName === undefined ? {} : presets[presetName];
  const json = given.streams;
  const handler = Object.fromEntries(Object.entries(config).filter(([name]) => name in handlerChecks));
  const document = Object.fromEntries(Object.entries(config).filter(([name]) => name in documentChecks));
  const { title, version, description, servers, connect, include, exclude, visibility, schemas, validation } = given;
  return {
    output: output ?? "openapi.json",
    info: { ...info, ...defined({ title, version, description }) },
    handler: {
      ...preset,
      ...(handler as HandlerOptions),
      ...(json === undefined ? {} : { streams: { ...config.streams, json } }),
      ...defined({ errors }),
      rules: (rules ?? []).map(readRule),
    },
    document: {
      ...(document as DocumentOptions),
      ...defined({
        servers: servers?.map((url) => ({ url })),
        connect,
        include,
        exclude,
        visibility,
        schemas,
        validation,
      }),
    },
  };
}

/** The options in the file, overridden by the parameter. */
function readConfigOf({ config: file, output, preset, errors }: Parameters): ConfigFile {
  return { ...(file === undefined ? {} : readConfig(file)), ...defined({ output, preset, errors }) };
}

function defined<Options extends object>(options: Options): { [Name in keyof Options]?: NonNullable<Options[Name]> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
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
