import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { collectImplementations } from "../call/implementations.ts";
import { adapterOptionChecks, fastifyOptionChecks, fetchOptionChecks } from "../options/adapter-checks.ts";
import { checkIsObject, checkOptions } from "../options/check-options.ts";
import { gatewayOptionChecks } from "../options/option-checks.ts";
import {
  completeOptions,
  type CompleteGatewayOptions,
  forRegistration,
  type GatewayOptions,
} from "../options/options.ts";
import type { Route } from "../routing/route.ts";
import { createRouter } from "../routing/router.ts";
import { compileRoutes, type Rule, rulesOf } from "../routing/routes.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import { createAnnotations } from "./annotations.ts";
import type { Comments } from "./comments.ts";
import { createUses } from "./components.ts";
import { listConnectOperations } from "./connect.ts";
import type { DocumentOperation, OperationContext } from "./context.ts";
import type { Info, OpenApiDocument, ParameterObject, PathItem } from "./document.ts";
import { createErrorResponses, type ErrorBody, type ErrorFormatName } from "./error-schemas.ts";
import { addExamples } from "./examples.ts";
import { createOptionReader } from "./named-options.ts";
import { openApiOptionChecks, type OpenApiOptions } from "./options.ts";
import { createSchemas } from "./schema.ts";
import { lastSelected, selectMethods } from "./selection.ts";
import { createValidation } from "./validation.ts";
import { formatTemplate } from "../routing/template.ts";
import { describeOperation } from "./operation.ts";
import { bodiesByPath, describePath, hierarchyOf, pathKey } from "./path.ts";

/** The options of the handler that serves the RPCs: of `createGateway` or of an adapter. */
export type OpenApiSource = GatewayOptions & {
  /** The prefix of the Fastify plugin, which is part of the paths. */
  readonly prefix?: string;
} & { readonly [Name in Exclude<keyof typeof adapterChecks, "prefix">]?: unknown };

const adapterChecks = { ...adapterOptionChecks, ...fetchOptionChecks, ...fastifyOptionChecks };

/** The HTTP methods that OpenAPI 3.1 can describe. */
const knownMethods = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];

/**
 * Describes RPCs as an OpenAPI 3.1 document: as REST if they have a google.api.http rule, else as Connect. It is
 * generated from the options of the handler and the compiled rules, so that it can't differ from the served API. The
 * output is deterministic. Throws an Error for an unknown option, for an invalid rule, and for two rules that match the
 * same requests.
 */
export function openapi(source: OpenApiSource, options: OpenApiOptions): OpenApiDocument {
  checkOptions(source, { ...gatewayOptionChecks, ...adapterChecks }, "the options of the handler, the first argument,");
  const subject = "the options of the document, the second argument,";
  checkIsObject(options, openApiOptionChecks, subject);
  const misplaced = Object.keys(options).find((name) => Object.hasOwn(gatewayOptionChecks, name));
  if (misplaced !== undefined) {
    throw new Error(`${misplaced} is an option of the handler, which is the first argument`);
  }
  checkOptions(options, openApiOptionChecks, subject);
  return describeApi(source, options).describe(options.info);
}

type DescribedApi = {
  readonly methods: readonly DescMethod[];
  /** The rules of the handler for them. */
  readonly rules: readonly Rule[];
  readonly describe: (info: Info) => OpenApiDocument;
};

/** The same with checked options, for a document whose `info` depends on the RPCs. */
export function describeApi(source: OpenApiSource, options: Omit<OpenApiOptions, "info">): DescribedApi {
  const implementations = collectImplementations(source.routes);
  const registered = implementations.map(({ method }) => method);
  const handler = completeOptions(source, registered);
  const registry = createReachableRegistry(registered);
  const readOption = createOptionReader(registry);
  const annotations = createAnnotations(readOption, options.visibility ?? []);
  const tagsOf = (method: DescMethod): readonly string[] =>
    lastSelected(options.tags ?? [], method)?.tags ?? [method.parent.name];
  const methods = selectMethods(registered, {
    include: options.include ?? [],
    exclude: options.exclude ?? [],
    tagsOf,
    isVisible: (method) => annotations.isVisible(method.parent) && annotations.isVisible(method),
  });
  const rules = rulesFor(methods, registered, handler.rules);
  const routes = compileServedRoutes(methods, { ...handler, rules });
  // Not every generator escapes the end of a comment in the code that it writes.
  const comments: Comments = (desc) => options.comments?.(desc)?.replaceAll("*/", "* /");
  const schemas = createSchemas({
    comments,
    form: options.schemas ?? "simple",
    annotations,
    validation: createValidation(readOption, options.validation ?? "keywords"),
  });
  const findMessage = (name: string): DescMessage | undefined => registry.getMessage(name);
  const errorBody = errorBodyOf(handler, options.errorBody);
  const context: OperationContext = {
    schemas,
    comments,
    errors: createErrorResponses(errorBody, schemas, comments, createUses(handler.jsonOptions, false).response),
    streams: handler.streams,
    unknownQuery: handler.unknownQuery,
    ignoredQuery: handler.ignoredQuery,
    // The default limit is not a part of the contract.
    readMaxBytes: source.readMaxBytes ?? Infinity,
    usesOf(method, isRpc = false) {
      const own = implementations.find((each) => isSameRpc(each.method, method))?.options ?? {};
      return createUses(forRegistration(handler, own).jsonOptions, isRpc);
    },
    findMessage,
    errorMessages: errorMessagesOf(options.errorMessages, findMessage),
    security: securityOf(options.security),
    tagsOf,
  };
  const operations = [
    ...listRestOperations(routes, context),
    ...listConnectOperations(connectMethods(methods, routes, handler, options.connect), context),
  ];
  const described = methods.filter((method) => operations.some((each) => isSameRpc(each.method, method)));
  const paths = pathsOf(operations, `${source.prefix ?? ""}${handler.requestPathPrefix}`, options);
  const { schemas: components, resolve } = schemas.finish();
  return {
    methods: described,
    rules,
    describe: (info) => ({
      openapi: "3.1.1",
      info,
      servers: options.servers ?? [{ url: "/" }],
      tags: describeTags(described, context),
      paths: resolve(paths),
      components: {
        schemas: components,
        ...(options.securitySchemes === undefined ? {} : { securitySchemes: options.securitySchemes }),
      },
    }),
  };
}

/** By service and name, since an external rule can replace a method by a copy with other options. */
function isSameRpc(one: DescMethod, other: DescMethod): boolean {
  return one.parent === other.parent && one.name === other.name;
}

/** The rules for the selected methods, and the rules for no registered method, which are an error. */
function rulesFor(methods: readonly DescMethod[], registered: readonly DescMethod[], rules: readonly Rule[]): Rule[] {
  const selects = (list: readonly DescMethod[], rule: Rule): boolean =>
    list.some((method) => rulesOf(method, [rule]).length > 0);
  return rules.filter((rule) => selects(methods, rule) || !selects(registered, rule));
}

function compileServedRoutes(methods: readonly DescMethod[], handler: CompleteGatewayOptions): readonly Route[] {
  if (!handler.protocols.includes("rest")) {
    return [];
  }
  const routes = compileRoutes(methods, handler);
  // Throws where two routes match the same requests, of which the document could contain only one.
  createRouter(routes.map((route) => ({ ...route, name: route.method.toString(), value: undefined })));
  return routes;
}

function connectMethods(
  methods: readonly DescMethod[],
  routes: readonly Route[],
  { protocols }: CompleteGatewayOptions,
  connect: OpenApiOptions["connect"] = "unannotated",
): readonly DescMethod[] {
  if (connect === "none" || !protocols.includes("connect")) {
    return [];
  }
  return connect === "all"
    ? methods
    : methods.filter((method) => !routes.some((route) => isSameRpc(route.method, method)));
}

function errorBodyOf({ errors }: CompleteGatewayOptions, given: ErrorBody | undefined): ErrorFormatName | ErrorBody {
  if (typeof errors === "function") {
    if (given === undefined) {
      throw new Error("errors are formatted by a function: describe their body by the option errorBody");
    }
    return given;
  }
  if (given !== undefined) {
    throw new Error(
      `the option errorBody requires errors formatted by a function; the option errors of the handler is "${errors}"`,
    );
  }
  return errors;
}

function errorMessagesOf(
  given: OpenApiOptions["errorMessages"] = [],
  findMessage: OperationContext["findMessage"],
): OperationContext["errorMessages"] {
  if (typeof given === "function") {
    return given;
  }
  const lists = given.map(({ selector, messages }) => ({
    selector,
    messages: messages.map((name) => {
      const message = findMessage(name);
      if (message === undefined) {
        throw new Error(`the option errorMessages has ${name}, which no file of the services declares or imports`);
      }
      return message;
    }),
  }));
  return (method) => lists.flatMap((each) => lastSelected([each], method)?.messages ?? []);
}

function securityOf(given: OpenApiOptions["security"] = []): OperationContext["security"] {
  return typeof given === "function" ? given : (method) => lastSelected(given, method)?.requirements;
}

/** The operationId is Service_Method; further operations of the same RPC end with _2, _3, …. */
function pathsOf(
  operations: readonly DocumentOperation[],
  prefix: string,
  { examples = {} }: Pick<OpenApiOptions, "examples">,
): Record<string, PathItem> {
  const unused = new Map(Object.entries(examples));
  const counts = new Map<string, number>();
  const paths = new Map<string, PathItem>();
  for (const { method, httpMethod, path, describe } of operations) {
    const name = `${method.parent.name}_${method.name}`;
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    const operationId = count === 1 ? name : `${name}_${count}`;
    const operation = addExamples(describe(operationId), unused.get(operationId));
    unused.delete(operationId);
    const item = paths.get(prefix + path) ?? {};
    paths.set(prefix + path, item);
    if (knownMethods.includes(httpMethod)) {
      item[httpMethod.toLowerCase()] = operation;
    } else {
      // The additionalOperations of OpenAPI 3.2.
      item["x-additionalOperations"] = { ...(item["x-additionalOperations"] as object), [httpMethod]: operation };
    }
  }
  const [unknown] = unused.keys();
  if (unknown !== undefined) {
    throw new Error(`there are examples for ${unknown}, but no such operation`);
  }
  return Object.fromEntries(paths);
}

/** The tags of the operations, in their order. A service's tag has its comment. */
function describeTags(methods: readonly DescMethod[], { tagsOf, comments }: OperationContext): OpenApiDocument["tags"] {
  return [...new Set(methods.flatMap(tagsOf))].map((name) => {
    const service = methods.find(({ parent }) => parent.name === name)?.parent;
    const description = service && comments(service);
    return { name, ...(description === undefined ? {} : { description }) };
  });
}

/** The methods that a route for any method is described with. */
const anyMethods = ["GET", "PUT", "POST", "DELETE", "PATCH"];

function listRestOperations(routes: readonly Route[], context: OperationContext): DocumentOperation[] {
  const explicit = new Set(routes.map(({ httpMethod, template }) => `${httpMethod} ${hierarchyKey(template)}`));
  const bodies = bodiesByPath(routes);
  const pathNames = new Map<string, { path: string; names: string[] }>();
  return routes.flatMap((route) => {
    const described = describePath(route, bodies.get(pathKey(route.template)) ?? new Set(), context);
    // OpenAPI considers paths identical that differ in parameter names only, so the first names are used for all.
    const hierarchy = hierarchyOf(described.path);
    const first = pathNames.get(hierarchy) ?? {
      path: described.path,
      names: described.parameters.map(({ name }) => name),
    };
    pathNames.set(hierarchy, first);
    const parameters = described.parameters.map((each, index): ParameterObject => ({
      ...each,
      name: first.names[index] ?? each.name,
    }));
    return methodsOf(route, explicit).map((httpMethod): DocumentOperation => ({
      method: route.method,
      httpMethod,
      path: first.path,
      describe: (operationId) => describeOperation(route, operationId, parameters, context),
    }));
  });
}

/** The HTTP methods with which a route is described: for "*", the methods that no other route of the path has. */
function methodsOf({ httpMethod, template, variants }: Route, explicit: ReadonlySet<string>): readonly string[] {
  return httpMethod !== "*"
    ? [httpMethod]
    : anyMethods
        .filter((each) => !explicit.has(`${each} ${hierarchyKey(template)}`))
        .filter((each) => each !== "GET" || variants.every(({ body }) => body === ""));
}

const hierarchyKey = (template: Route["template"]): string =>
  formatTemplate(template).replaceAll(/\{\w+(?:\.\w+)*\}/g, "*");
