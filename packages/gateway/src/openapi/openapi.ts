import type { DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import type { Route } from "../routing/route.ts";
import { createRouter } from "../routing/router.ts";
import { compileRoutes, type RoutesOptions } from "../routing/routes.ts";
import { collectImplementations } from "../call/implementations.ts";
import { canonicalJson, type JsonOptions } from "../json/json-options.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import { formatTemplate } from "../routing/template.ts";
import type { Comments } from "./comments.ts";
import type {
  Content,
  Info,
  OpenApiDocument,
  OperationObject,
  Parameter,
  PathItem,
  Schema,
  SecurityRequirement,
  Server,
} from "./document.ts";
import type { OperationContext } from "./context.ts";
import { createErrorResponses, type ErrorBody } from "./error-schemas.ts";
import type { Examples, OperationExamples } from "./examples.ts";
import { describeOperation } from "./operation.ts";
import { describePath, hierarchyOf } from "./path.ts";
import { createSchemas } from "./schema.ts";
import type { SchemaForm } from "./scalar-schema.ts";
import type { StreamJson } from "./stream.ts";

/** The RPCs to describe: a function that registers services with Connect, with the gateway's options; or compiled routes. */
export type OpenApiSource =
  | readonly Route[]
  | (Partial<RoutesOptions> & { readonly routes: (router: ConnectRouter) => unknown });

/** The options of `openapi`. */
export type OpenApiOptions = {
  /** The Info Object of OpenAPI. */
  readonly info: Info;
  /** Default: `/`, the server of the document. */
  readonly servers?: readonly Server[];
  /** The comments of the .proto files for descriptions, see `readComments`. Default: none. */
  readonly comments?: Comments;
  /** The format of error bodies; must be that of the gateway's option. Default: "plain". */
  readonly errors?: ErrorBody;
  /** The format of streams in application/json; must be that of the gateway's option. Default: an array. */
  readonly streams?: { readonly json?: StreamJson };
  /** How JSON is read and written; must be the gateway's option. Default: as in the proto3 JSON mapping. */
  readonly jsonOptions?: JsonOptions;
  /**
   * "simple": schemas that code generators understand. A message has one schema for requests and responses, an enum is its names, a
   * number is a number (not also "NaN"), and that at most one member of a oneof is set is in the description and in `x-oneofs`.
   * "exact": schemas that accept just the JSON that is accepted and written. Default: "simple".
   */
  readonly schemas?: SchemaForm;
  /** Messages with the `error` option that calls of a method can fail with besides its `request_error`, such as those of a gate. */
  readonly errorMessages?: (method: DescMethod) => readonly DescMessage[];
  /** Security Scheme Objects of OpenAPI, by name. Default: none. */
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
  /** The security requirements of a method; an empty array means none; if undefined, the operation has no `security` member. */
  readonly security?: (method: DescMethod) => readonly SecurityRequirement[] | undefined;
  /** Examples of requests and responses, by operationId. An example without a matching operation is an Error. */
  readonly examples?: Examples;
};

/** The HTTP methods that OpenAPI 3.1 can describe. */
const knownMethods = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];
/** The methods that a route for any method is described with. */
const anyMethods = ["GET", "PUT", "POST", "DELETE", "PATCH"];

/**
 * Describes RPCs with google.api.http rules as an OpenAPI 3.1 document. It is generated from the gateway's compiled
 * routes, so that it can't differ from what is served. The output is deterministic. Throws an Error for a rule that is
 * invalid, and for two that match the same requests.
 */
export function openapi(source: OpenApiSource, options: OpenApiOptions): OpenApiDocument {
  const routes = routesOf(source);
  // Not every generator escapes the end of a comment in the code that it writes.
  const comments: Comments = (desc) => options.comments?.(desc)?.replaceAll("*/", "* /");
  const schemas = createSchemas(comments, { ...canonicalJson, ...options.jsonOptions }, options.schemas);
  const registry = createReachableRegistry(routes.map(({ method }) => method));
  const context: OperationContext = {
    schemas,
    comments,
    errors: createErrorResponses(options.errors ?? "plain", schemas, comments),
    findMessage: (typeName): DescMessage | undefined => registry.getMessage(typeName),
    ignoreUnknownFields: options.jsonOptions?.ignoreUnknownFields ?? false,
    streamJson: options.streams?.json ?? "array",
    errorMessages: options.errorMessages ?? (() => []),
    security: options.security ?? (() => undefined),
  };
  const examples = new Map(Object.entries(options.examples ?? {}));
  const operations = listOperations(routes);
  const paths = new Map<string, PathItem>();
  const pathNames = new Map<string, { path: string; names: string[] }>();

  for (const { route, httpMethod, operationId } of operations) {
    const described = describePath(route, schemas, comments);
    // OpenAPI considers paths identical that differ in parameter names only, so the first names are used for all.
    const hierarchy = hierarchyOf(described.path);
    const first = pathNames.get(hierarchy) ?? {
      path: described.path,
      names: described.parameters.map(({ name }) => name),
    };
    pathNames.set(hierarchy, first);
    const parameters = described.parameters.map((each, index): Parameter => ({
      ...each,
      name: first.names[index] ?? each.name,
    }));
    const operation = addExamples(
      describeOperation(route, operationId, parameters, context),
      examples.get(operationId),
    );
    examples.delete(operationId);
    const item = paths.get(first.path) ?? {};
    paths.set(first.path, item);
    if (knownMethods.includes(httpMethod)) {
      item[httpMethod.toLowerCase()] = operation;
    } else {
      // The additionalOperations of OpenAPI 3.2.
      item["x-additionalOperations"] = { ...(item["x-additionalOperations"] as object), [httpMethod]: operation };
    }
  }
  const [unknown] = examples.keys();
  if (unknown !== undefined) {
    throw new Error(`there are examples for ${unknown}, but no such operation`);
  }
  const { schemas: components, resolve } = schemas.finish();
  return {
    openapi: "3.1.1",
    info: options.info,
    servers: options.servers ?? [{ url: "/" }],
    tags: tagsOf(routes, comments),
    paths: resolve(Object.fromEntries(paths)),
    components: {
      schemas: components,
      ...(options.securitySchemes === undefined ? {} : { securitySchemes: options.securitySchemes }),
    },
  };
}

function routesOf(source: OpenApiSource): readonly Route[] {
  if (!("routes" in source)) {
    return source;
  }
  const methods = collectImplementations(source.routes).map(({ method }) => method);
  const { rules = [], strictTemplates = false, googleTemplates = false } = source;
  const routes = compileRoutes(methods, { rules, strictTemplates, googleTemplates });
  // Throws where two routes match the same requests, of which the document could contain only one.
  createRouter(routes.map((route) => ({ ...route, name: route.method.toString(), value: undefined })));
  return routes;
}

type ListedOperation = { readonly route: Route; readonly httpMethod: string; readonly operationId: string };

/** The operations of all routes, in order. The operationId is Service_Method; further operations of the same RPC end with _2, _3, …. */
function listOperations(routes: readonly Route[]): ListedOperation[] {
  const explicit = new Set(routes.map(({ httpMethod, template }) => `${httpMethod} ${hierarchyKey(template)}`));
  const counts = new Map<string, number>();
  return routes.flatMap((route) => {
    const { method, httpMethod, template, variants } = route;
    const methods =
      httpMethod !== "*"
        ? [httpMethod]
        : anyMethods
            .filter((each) => !explicit.has(`${each} ${hierarchyKey(template)}`))
            .filter((each) => each !== "GET" || variants.every(({ body }) => body === ""));
    return methods.map((each) => {
      const name = `${method.parent.name}_${method.name}`;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      return { route, httpMethod: each, operationId: count === 1 ? name : `${name}_${count}` };
    });
  });
}

const hierarchyKey = (template: Route["template"]): string =>
  formatTemplate(template).replaceAll(/\{\w+(?:\.\w+)*\}/g, "*");

function tagsOf(routes: readonly Route[], comments: Comments): OpenApiDocument["tags"] {
  const services = new Set(routes.map(({ method }): DescService => method.parent));
  return [...services].map((service) => {
    const description = comments(service);
    return { name: service.name, ...(description === undefined ? {} : { description }) };
  });
}

function addExamples(operation: OperationObject, examples: OperationExamples | undefined): OperationObject {
  if (examples === undefined) {
    return operation;
  }
  const { operationId } = operation;
  const addToContent = (content: Content | undefined, own: OperationExamples["request"], where: string): void => {
    for (const [mediaType, byName] of Object.entries(own ?? {})) {
      const target = content?.[mediaType];
      if (content === undefined || target === undefined) {
        throw new Error(`there are examples for ${operationId}, ${where}, ${mediaType}, but it has no such content`);
      }
      content[mediaType] = { ...target, examples: byName };
    }
  };
  addToContent(operation.requestBody?.content, examples.request, "request");
  for (const [status, own] of Object.entries(examples.responses ?? {})) {
    addToContent(operation.responses[status]?.content, own, `response ${status}`);
  }
  const values = new Map(Object.entries(examples.parameters ?? {}));
  const parameters = operation.parameters?.map((parameter) => {
    const example = values.get(parameter.name);
    values.delete(parameter.name);
    return example === undefined ? parameter : { ...parameter, example };
  });
  const [unknown] = values.keys();
  if (unknown !== undefined) {
    throw new Error(`there is an example for the parameter ${unknown} of ${operationId}, but it has no such parameter`);
  }
  return parameters === undefined ? operation : { ...operation, parameters };
}
