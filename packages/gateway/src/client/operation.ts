import type { DescMethod, Message, Registry } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { RequestError } from "../http/request-error.ts";
import { boundFieldsOf, createVariantSelector, type Route, type Variant } from "../routing/route.ts";
import { compileRoutes, rulesOf } from "../routing/routes.ts";
import { formatTemplate } from "../routing/template.ts";
import { bindFields } from "../schema/bound-fields.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import { findRawBody } from "../schema/http-body.ts";
import { methodRule } from "../schema/rules.ts";
import { NDJSON_TYPE } from "../protocols/rest/stream/framing.ts";
import type { CompleteTransportOptions } from "./options.ts";
import { createRequestBodyWriter, type RequestBodyWriter } from "./request/body.ts";
import { createRequestHeaderWriter, ifMatchField, type HeaderWriter } from "./request/headers.ts";
import { invalidArgument } from "./request/invalid-argument.ts";
import { createParameterWriter, formatParameters, type RequestParameter } from "./request/parameters.ts";
import { createPathWriter, type Path } from "./request/path.ts";
import { createStreamBodyWriter, type StreamBodyWriter } from "./request/stream-body.ts";
import { createDocumentReader } from "./response/document.ts";
import { createErrorReader, type ErrorReader } from "./response/error.ts";
import { createUnaryReader, type UnaryReader } from "./response/unary.ts";
import { createStreamReader, type StreamReader } from "./stream/messages.ts";

export type CalledOperation = {
  readonly httpMethod: string;
  readonly template: string;
  /** Chooses the binding for a message, and the variant for the headers of the request. Throws a ConnectError if there is none. */
  choose(message: Message, header: Headers): Choice;
  readonly errors: ErrorReader;
};

export type Choice = {
  readonly path: string;
  /** The path of another message by the same binding. */
  readonly writePath: (message: Message) => Path;
  readonly mapping: Mapping;
};

export type Mapping = {
  readonly httpMethod: string;
  /** The Accept header; undefined if the response has any media type. */
  readonly accept: string | undefined;
  /** The value of the header that selects the variant; undefined if there are no variants. */
  readonly variant: { readonly header: string; readonly value: string } | undefined;
  readonly writeHeaders: HeaderWriter;
  readonly writeQuery: (message: Message) => RequestParameter[];
  readonly writeBody: RequestBodyWriter;
  readonly streamBody: StreamBodyWriter;
  readonly readUnary: UnaryReader;
  readonly readStream: StreamReader;
};

export function compileOperation(method: DescMethod, options: CompleteTransportOptions): CalledOperation {
  const [primary, ...additional] = routesOf(method, options);
  if (primary === undefined) {
    throw new ConnectError(
      `${method.toString()} has no google.api.http rule, so it can't be called over REST`,
      Code.Unimplemented,
    );
  }
  const registry = options.registry ?? createReachableRegistry([method]);
  const errors = createErrorReader(registry, methodRule(primary.method).requestError);
  const bindings = [primary, ...additional].map((route) => ({
    writePath: createPathWriter(route, registry),
    select: createMappingSelector(route, { ...options, registry }, errors),
  }));
  return {
    httpMethod: httpMethodOf(primary, primary.variants[0]),
    template: formatTemplate(primary.template),
    errors,
    choose(message, header) {
      let possible: Choice | undefined;
      const problems: string[] = [];
      for (const { writePath, select } of bindings) {
        const written = writePath(message);
        if (written.path === undefined) {
          problems.push(written.problem);
        } else if (written.isSet) {
          return { path: written.path, writePath, mapping: select(header) };
        } else {
          possible ??= { path: written.path, writePath, mapping: select(header) };
        }
      }
      if (possible === undefined) {
        throw invalidArgument(problems.join("; "));
      }
      return possible;
    },
  };
}

function routesOf(method: DescMethod, { rules }: CompleteTransportOptions): Route[] {
  try {
    return compileRoutes([method], { rules: rulesOf(method, rules), strictTemplates: false, googleTemplates: true });
  } catch (error) {
    throw new ConnectError((error as Error).message, Code.Unimplemented, undefined, undefined, error);
  }
}

type MappingOptions = CompleteTransportOptions & { readonly registry: Registry };

/** Compiles the variants of a route. If the headers of a request select none, the one that maps the most fields is chosen. */
function createMappingSelector(
  route: Route,
  options: MappingOptions,
  errors: ErrorReader,
): (header: Headers) => Mapping {
  const compiled = route.variants.map((variant) => ({
    variant,
    mapping: compileMapping(route, variant, options, errors),
  }));
  const { mapping: preferred } = compiled.reduce((best, each) =>
    completeness(each.variant) > completeness(best.variant) ? each : best,
  );
  const { variants } = methodRule(route.method);
  if (variants === undefined) {
    return () => preferred;
  }
  const name = variants.header.toLowerCase();
  const select = createVariantSelector(
    route.method,
    compiled.map(({ variant, mapping }) => [variant.value, mapping] as const),
  );
  return (header) => {
    const value = header.get(name);
    if (value === null) {
      return preferred;
    }
    try {
      return select({ [name]: value });
    } catch (error) {
      throw error instanceof RequestError ? invalidArgument(error.message) : error;
    }
  };
}

/** Ranks variants: a body with all fields first, then a response with all fields. */
function completeness(variant: Variant): number {
  const hasWholeResponse = variant.hasBody && variant.responseBody === "";
  return (variant.body === "*" ? 2 : 0) + (hasWholeResponse ? 1 : 0);
}

function compileMapping(route: Route, variant: Variant, options: MappingOptions, errors: ErrorReader): Mapping {
  const { method } = route;
  const { registry, query } = options;
  const tag = ifMatchField(method);
  const document = createDocumentReader(method.output, variant.responseBody, options);
  const { variants } = methodRule(method);
  return {
    httpMethod: httpMethodOf(route, variant),
    accept: acceptOf(method, variant),
    variant: variant.value === undefined ? undefined : { header: variants?.header ?? "", value: variant.value },
    writeHeaders: createRequestHeaderWriter(method, variant.body, registry),
    writeQuery: createParameterWriter(method.input, {
      from: "query",
      boundFields: bindFields(boundFieldsOf(route, variant.body), tag === undefined ? [] : [tag], "header"),
      ...query,
      registry,
    }),
    writeBody: createRequestBodyWriter(route, variant, registry),
    streamBody: createStreamBodyWriter(route, variant, registry),
    readUnary: createUnaryReader(method, variant, document),
    readStream: createStreamReader(method, variant, document, errors),
  };
}

/** A rule for any HTTP method is called with the usual one. */
function httpMethodOf({ httpMethod }: Route, { body }: Variant): string {
  return httpMethod === "*" ? (body === "" ? "GET" : "POST") : httpMethod;
}

function acceptOf({ methodKind, output }: DescMethod, { responseBody }: Variant): string | undefined {
  if (findRawBody(output, responseBody) !== undefined) {
    return undefined;
  }
  if (methodKind === "unary" || methodKind === "client_streaming") {
    return "application/json";
  }
  // In lines, an error can't be distinguished from a message with only a field of this name.
  return output.fields.some(({ jsonName }) => jsonName === "error")
    ? `text/event-stream, ${NDJSON_TYPE};q=0.9, application/json;q=0.8`
    : `${NDJSON_TYPE}, text/event-stream;q=0.9, application/json;q=0.8`;
}

export function formatTarget(path: string, query: readonly RequestParameter[]): string {
  return query.length === 0 ? path : `${path}?${formatParameters(query)}`;
}
