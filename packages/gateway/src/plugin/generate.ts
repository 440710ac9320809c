import {
  create,
  createFileRegistry,
  maximumEdition,
  minimumEdition,
  type DescMessage,
  type DescMethod,
  type DescService,
  type FileRegistry,
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
import { openapi } from "../openapi/openapi.ts";
import { rulesOf } from "../routing/routes.ts";
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

/** Describes the selected services; undefined if none of their RPCs has a rule. */
function describeFiles(request: CodeGeneratorRequest, options: PluginOptions): OpenApiDocument | undefined {
  const set = create(FileDescriptorSetSchema, { file: request.protoFile });
  const registry = createFileRegistry(set);
  // The order of the files depends on who calls the plugin.
  const declared = request.fileToGenerate.toSorted().flatMap((name) => registry.getFile(name)?.services ?? []);
  const services = selectServices(declared, options.services);
  // Compiled as for serving, so that all errors that would occur at start-up are reported here.
  const { routes } = createGateway({
    routes: (router) => services.forEach((service) => router.service(service, {})),
    rules: options.rules,
    strictTemplates: options.strictTemplates,
    googleTemplates: options.googleTemplates,
  });
  const { securitySchemes, security, errorMessages } = options;
  return routes.length === 0
    ? undefined
    : openapi(routes, {
        ...options.format,
        info: { ...defaultInfo(routes.map(({ method }) => method)), ...options.info },
        ...(options.servers.length === 0 ? {} : { servers: options.servers }),
        comments: readComments(set),
        ...(securitySchemes === undefined ? {} : { securitySchemes }),
        security: (method) => security.findLast(({ selector }) => selects(selector, method))?.requirements,
        errorMessages: (method) =>
          errorMessages
            .filter(({ selector }) => selects(selector, method))
            .flatMap(({ messages }) => messages.map((name) => requireMessage(registry, name))),
        examples: options.examples,
      });
}

function selectServices(declared: readonly DescService[], patterns: readonly string[]): readonly DescService[] {
  if (declared.length === 0 || patterns.length === 0) {
    return declared;
  }
  const selectors = patterns.map((pattern) => (pattern.endsWith("*") ? pattern : `${pattern}.*`));
  for (const [index, selector] of selectors.entries()) {
    if (!declared.some(({ methods }) => methods.some((method) => selects(selector, method)))) {
      throw new Error(
        `the option services selects no service by "${patterns[index]}"; the files have ` +
          `${declared.map(({ typeName }) => typeName).join(", ")}. If others are in other folders, buf needs "strategy: all"`,
      );
    }
  }
  return declared.filter(({ methods }) => methods.some((method) => selectors.some((each) => selects(each, method))));
}

function selects(selector: string, method: DescMethod): boolean {
  return rulesOf(method, [{ selector }]).length > 0;
}

function requireMessage(registry: FileRegistry, name: string): DescMessage {
  const message = registry.getMessage(name);
  if (message === undefined) {
    throw new Error(`the option errorMessages has ${name}, but no file that is generated or imported declares it`);
  }
  return message;
}

/** The packages of the RPCs as title, and the version that their names end with. */
function defaultInfo(methods: readonly DescMethod[]): Info {
  const packages = [...new Set(methods.map(({ parent }) => parent.file.proto.package))];
  const [version, ...others] = new Set(packages.map((name) => /\.(v\d\w*)$/.exec(name)?.[1]));
  return { title: packages.join(", "), version: others.length === 0 && version !== undefined ? version : "0.0.0" };
}
