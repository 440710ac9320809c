import {
  create,
  createFileRegistry,
  type DescMethod,
  maximumEdition,
  type MessageInitShape,
  minimumEdition,
} from "@bufbuild/protobuf";
import {
  type CodeGeneratorRequest,
  type CodeGeneratorResponse,
  CodeGeneratorResponse_Feature,
  CodeGeneratorResponseSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { readComments } from "../openapi/comments.ts";
import type { Info, OpenApiDocument } from "../openapi/document.ts";
import { describeApi, type OpenApiSource } from "../openapi/openapi.ts";
import { createGateway } from "../gateway.ts";
import { type PluginOptions, readOptions } from "./options.ts";

/** Generates the OpenAPI document of the files of a request. Invalid options and rules are the error of the response. */
export function generate(request: CodeGeneratorRequest): CodeGeneratorResponse {
  return create(CodeGeneratorResponseSchema, {
    supportedFeatures: BigInt(
      CodeGeneratorResponse_Feature.PROTO3_OPTIONAL | CodeGeneratorResponse_Feature.SUPPORTS_EDITIONS,
    ),
    minimumEdition,
    maximumEdition,
    ...generateFile(request),
  });
}

function generateFile(request: CodeGeneratorRequest): MessageInitShape<typeof CodeGeneratorResponseSchema> {
  try {
    const options = readOptions(request.parameter);
    const document = describeFiles(request, options);
    const { output } = options;
    return document === undefined ? {} : { file: [{ name: output, content: format(document, output) }] };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function format(document: OpenApiDocument, output: string): string {
  return output.endsWith(".json") ? `${JSON.stringify(document, null, 2)}\n` : formatYaml(document);
}

/** Describes the selected RPCs; undefined if there are none. */
function describeFiles(request: CodeGeneratorRequest, options: PluginOptions): OpenApiDocument | undefined {
  const set = create(FileDescriptorSetSchema, { file: request.protoFile });
  const registry = createFileRegistry(set);
  // The order of the files depends on the caller of the plugin.
  const services = request.fileToGenerate.toSorted().flatMap((name) => registry.getFile(name)?.services ?? []);
  if (services.length === 0) {
    return undefined;
  }
  const isFormatted = options.document.errorBody !== undefined && options.handler.errors === undefined;
  const source: OpenApiSource = {
    ...options.handler,
    ...(isFormatted ? { errors: () => ({}) } : {}),
    routes: (router) => services.forEach((service) => router.service(service, {})),
  };
  const { methods, rules, describe } = describeApi(source, { ...options.document, comments: readComments(set) });
  // Compiled as for serving, so that all errors that would occur at start-up are reported here.
  createGateway({
    ...source,
    rules,
    routes: (router) => methods.forEach((method) => router.rpc(method as never, (() => ({})) as never)),
  });
  return methods.length === 0 ? undefined : describe({ ...defaultInfo(methods), ...options.info });
}

/** The packages of the RPCs as title, and the version that their names end with. */
function defaultInfo(methods: readonly DescMethod[]): Info {
  const packages = [...new Set(methods.map(({ parent }) => parent.file.proto.package))];
  const [version, ...others] = new Set(packages.map((name) => /\.(v\d\w*)$/.exec(name)?.[1]));
  return { title: packages.join(", "), version: others.length === 0 && version !== undefined ? version : "0.0.0" };
}

function formatYaml(value: unknown): string {
  return `${formatNode(value, "").trimStart()}\n`;
}

/** A node after `key:` or `-`: on the same line with a space before it, or on lines of its own. */
function formatNode(value: unknown, indent: string): string {
  if (Array.isArray(value) && value.length > 0) {
    return value.map((item) => `\n${indent}-${startOnSameLine(formatNode(item, `${indent}  `))}`).join("");
  }
  if (isObject(value) && Object.keys(value).length > 0) {
    return Object.entries(value)
      .map(([key, each]) => `\n${indent}${formatKey(key)}:${formatNode(each, childIndent(each, indent))}`)
      .join("");
  }
  return typeof value === "string" ? ` ${formatString(value, indent)}` : ` ${JSON.stringify(value)}`;
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Lists are not indented below their key. */
const childIndent = (value: unknown, indent: string): string => (Array.isArray(value) ? indent : `${indent}  `);

/** The first line of a mapping or list follows the `-` of its item. */
function startOnSameLine(node: string): string {
  return node.startsWith("\n") ? ` ${node.trimStart()}` : node;
}

/** Words that are no string without quotes, in YAML 1.1 or 1.2. */
const reserved = /^(?:true|false|yes|no|on|off|y|n|null)$/i;

function isPlain(text: string): boolean {
  return /^[A-Za-z_$/](?:[\w$/{}.+*()-]| (?=[\w/(]))*$/.test(text) && !reserved.test(text);
}

function formatKey(key: string): string {
  // A colon begins a value only before a space.
  return isPlain(key.replaceAll(/:(?=\w)/g, "")) ? key : JSON.stringify(key);
}

function formatString(text: string, indent: string): string {
  if (isPlain(text)) {
    return text;
  }
  // The strings of JSON are also double-quoted strings of YAML.
  // oxlint-disable-next-line no-control-regex
  return !text.includes("\n") || /^\s|\s$|[^\n\u0020-\u007e\u00a0-\ud7ff\ue000-\ufefe]/.test(text)
    ? JSON.stringify(text)
    : `|-\n${text.replaceAll(/^(?=.)/gm, indent)}`;
}
