import { create, type DescMethod, type Message, type Registry } from "@bufbuild/protobuf";
import { boundFieldsOf, routeName, type Route, type Variant } from "../../../routing/route.ts";
import { createBodyReader, type DeferBody } from "./body.ts";
import type { PrototypeKeys } from "../../../json/parse.ts";
import { createPathVariablesReader } from "../../../routing/path-variables.ts";
import { deferMessage, isDeferred, getEncodedRequest } from "../../../call/deferred.ts";
import { createHeaderReader, createIfMatchReader } from "./headers.ts";
import { createMaskKeeper, createMaskSetter } from "./field-mask.ts";
import type { ParameterBindingOptions } from "./parameter-name.ts";
import { createParameterReader } from "./parameters.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import type { CompleteJsonOptions } from "../../../json/json-options.ts";
import { maxBodyBytesOf, methodRule } from "../../../schema/rules.ts";

/** Creates the message of an HTTP request. `pathVariables` are in the order of the template, still percent-encoded. */
export type Binder = (request: GatewayRequest, pathVariables: readonly string[]) => Message | Promise<Message>;

export type BindOptions = {
  readonly readMaxBytes: number;
  readonly maxDepth: number;
  readonly prototypeKeys: PrototypeKeys;
  readonly registry: Registry;
  readonly jsonOptions: Pick<CompleteJsonOptions, "ignoreUnknownFields" | "ignoreEnumCase">;
  readonly unknownQuery: ParameterBindingOptions["unknown"];
  readonly boundQuery: ParameterBindingOptions["bound"];
  readonly ignoredQuery: readonly string[];
  readonly fieldMaskFromBody: boolean;
  readonly deferred: readonly DescMethod[];
};

/** Compiles the binding of a request: each field of the message is bound to one of header, path, body and query. */
export function createBinder(route: Route, variant: Variant, options: BindOptions): Binder {
  const { input } = route.method;
  const rule = methodRule(route.method);
  const { ignoreEnumCase } = options.jsonOptions;
  const readParameters = createParameterFieldsReader(route, variant, options);
  const readBody = createBodyReader(input, {
    body: variant.body,
    consumes: rule.consumes,
    ignoreUnknown: rule.ignoreUnknown || options.jsonOptions.ignoreUnknownFields,
    ignoreEnumCase,
    maxBytes: maxBodyBytesOf(route.method, options.readMaxBytes),
    maxDepth: options.maxDepth,
    prototypeKeys: options.prototypeKeys,
    registry: options.registry,
    setMask: options.fieldMaskFromBody ? createMaskSetter(route, variant) : undefined,
    parameters: {
      unknown: options.unknownQuery,
      bound: options.boundQuery,
      ignored: new Set(),
      boundFields: boundFieldsOf(route, ""),
      maxDepth: options.maxDepth,
      ignoreEnumCase,
      registry: options.registry,
    },
  });
  if (!isDeferred(route.method, options.deferred)) {
    return (request, pathVariables) => {
      const parameters = readParameters(request, pathVariables);
      const assign = (message: Message): Message => {
        parameters.assignTo(message);
        return message;
      };
      const body = parameters.ignoreBody ? create(input) : readBody(request);
      return body instanceof Promise ? body.then(assign) : assign(body);
    };
  }
  const name = routeName(route);
  return (request, pathVariables) => {
    const parameters = readParameters(request, pathVariables);
    const assign = (message: Message): Message => {
      parameters.assignTo(message);
      return message;
    };
    const defer: DeferBody = (bytes, parse) => {
      const { httpMethod, target } = request;
      // Copied, since an adapter's may be a proxy, which can't be posted to another thread.
      const headers = { ...request.headers };
      const format = { kind: "http", route: name, httpMethod, target, headers, pathVariables } as const;
      return deferMessage(input, { bytes, format }, (each) => assign(parse(each)));
    };
    const assignUnlessDeferred = (message: Message): Message =>
      getEncodedRequest(message) === undefined ? assign(message) : message;
    const body = parameters.ignoreBody ? create(input) : readBody(request, defer);
    return body instanceof Promise ? body.then(assignUnlessDeferred) : assignUnlessDeferred(body);
  };
}

type ParameterFields = {
  /** Sets the fields; throws a RequestError if the query is invalid, or the body has set another member of a oneof. */
  assignTo(message: Message): void;
  readonly ignoreBody: boolean;
};

/** Reads the headers and path variables of a request; throws a RequestError for an invalid value. */
export type ParameterFieldsReader = (request: GatewayRequest, pathVariables: readonly string[]) => ParameterFields;

export function createParameterFieldsReader(
  route: Route,
  variant: Variant,
  options: BindOptions,
): ParameterFieldsReader {
  const { input } = route.method;
  const { ignoreEnumCase } = options.jsonOptions;
  const readHeaders = createHeaderReader(input, ignoreEnumCase);
  const path = createPathVariablesReader(route, ignoreEnumCase);
  const readIfMatch = createIfMatchReader(route.method);
  const keepMask = options.fieldMaskFromBody ? createMaskKeeper(route, variant) : undefined;
  const readQuery = createParameterReader(input, {
    from: "query",
    unknown: methodRule(route.method).ignoreUnknown ? "ignore" : options.unknownQuery,
    bound: options.boundQuery,
    ignored: new Set(options.ignoredQuery),
    boundFields: boundFieldsOf(route, variant.body),
    maxDepth: options.maxDepth,
    ignoreEnumCase,
    registry: options.registry,
  });
  return (request, pathVariables) => {
    const headers = readHeaders(request.headers);
    const values = path.read(pathVariables);
    const questionMark = request.target.indexOf("?");
    return {
      ignoreBody: headers.ignoreBody,
      assignTo(message) {
        const restoreMask = keepMask?.(message);
        headers.assignTo(message);
        path.set(message, values);
        if (questionMark !== -1) {
          readQuery(message, request.target, questionMark + 1);
        }
        restoreMask?.();
        readIfMatch?.(request.headers, message);
      },
    };
  };
}
