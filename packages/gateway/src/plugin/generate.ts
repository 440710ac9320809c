import {
  create,
  createFileRegistry,
  maximumEdition,
  minimumEdition,
  type DescMethod,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import {
  CodeGeneratorResponse_Feature,
  CodeGeneratorResponseSchema,
  FileDescriptorSetSchema,
  type CodeGeneratorRequest,
  type CodeGeneratorResponse,
} from "@bufbuild/protobuf/wkt";
import { readComments } from "../openapi/comments.ts";
import type { Info, OpenApiDocument } from "../openapi/document.ts";
import { describeApi, type OpenApiSource } from "../openapi/openapi.ts";
import { createGateway } from "../gateway.ts";
import { readOptions, type PluginOptions } from "./options.ts";
import { formatYaml } from "./yaml.ts";

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
  // The order of the files depends on who calls the plugin.
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
