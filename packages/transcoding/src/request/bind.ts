import { create, type DescMethod, type Message, type Registry } from "@bufbuild/protobuf";
import { routeName, type Route, type Variant } from "../routing/route.ts";
import { createBodyReader, type DeferBody } from "./body.ts";
import { createPathVariablesReader } from "../routing/path-variables.ts";
import { deferMessage, isDeferred, undecodedOf } from "./deferred.ts";
import type { FieldPath } from "../schema/field-path.ts";
import { createHeaderReader } from "./header.ts";
import { createIfMatchReader } from "./if-match.ts";
import type { ParameterOptions } from "./parameter-name.ts";
import { createParameterReader } from "./parameters.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { fieldRule, maxBodyBytesOf, methodRule } from "../schema/rules.ts";
import { createBoundFields, type BindingSource, type BoundFields } from "../schema/bound-fields.ts";

/** Makes the request message of a request; `pathVariables` are what the path's variables matched, raw, in order. */
export type Binder = (request: TranscodingRequest, pathVariables: readonly string[]) => Message | Promise<Message>;

export type BindOptions = {
  readonly maxBodyBytes: number;
  readonly maxDepth: number;
  readonly registry: Registry;
  readonly unknownQuery: ParameterOptions["unknown"];
  readonly boundQuery: ParameterOptions["bound"];
  readonly deferred: readonly DescMethod[];
};

/** Compiles the binding of a request: each field of the message has one source, header, path, body or query. */
export function createBinder(route: Route, variant: Variant, options: BindOptions): Binder {
  const { input } = route.method;
  const rule = methodRule(route.method);
  const readFrame = createFrameReader(route, variant, options);
  const readBody = createBodyReader(input, {
    body: variant.body,
    consumes: rule.consumes,
    ignoreUnknown: rule.ignoreUnknown,
    maxBytes: maxBodyBytesOf(route.method, options.maxBodyBytes),
    maxDepth: options.maxDepth,
    registry: options.registry,
    parameters: {
      unknown: options.unknownQuery,
      bound: options.boundQuery,
      boundFields: takenFields(route, ""),
      maxDepth: options.maxDepth,
      registry: options.registry,
    },
  });
  if (!isDeferred(route.method, options.deferred)) {
    return (request, pathVariables) => {
      const frame = readFrame(request, pathVariables);
      const fill = (message: Message): Message => {
        frame.fill(message);
        return message;
      };
      const body = frame.ignoreBody ? create(input) : readBody(request);
      return body instanceof Promise ? body.then(fill) : fill(body);
    };
  }
  const name = routeName(route);
  return (request, pathVariables) => {
    const frame = readFrame(request, pathVariables);
    const fill = (message: Message): Message => {
      frame.fill(message);
      return message;
    };
    const defer: DeferBody = (bytes, parse) => {
      const { httpMethod, target, headers } = request;
      const form = { kind: "http", route: name, httpMethod, target, headers, pathVariables } as const;
      return deferMessage(input, { bytes, form }, (each) => fill(parse(each)));
    };
    const fillNow = (message: Message): Message => (undecodedOf(message) === undefined ? fill(message) : message);
    const body = frame.ignoreBody ? create(input) : readBody(request, defer);
    return body instanceof Promise ? body.then(fillNow) : fillNow(body);
  };
}

/** What a request says of its message beside the body. */
type Frame = {
  /** Sets the fields; throws a RequestError where the body has another member of a oneof, or the query does not fit. */
  fill(message: Message): void;
  /** A header says that the body is ignored. */
  readonly ignoreBody: boolean;
};

/** Reads the headers and the path of a request; throws a RequestError where one does not fit. */
export type FrameReader = (request: TranscodingRequest, pathVariables: readonly string[]) => Frame;

/** Compiles what fills a message beside the body. */
export function createFrameReader(route: Route, variant: Variant, options: BindOptions): FrameReader {
  const { input } = route.method;
  const readHeaders = createHeaderReader(input);
  const path = createPathVariablesReader(route);
  const fillIfMatch = createIfMatchReader(route.method);
  const readQuery = createParameterReader(input, {
    from: "query",
    unknown: methodRule(route.method).ignoreUnknown ? "ignore" : options.unknownQuery,
    bound: options.boundQuery,
    boundFields: takenFields(route, variant.body),
    maxDepth: options.maxDepth,
    registry: options.registry,
  });
  return (request, pathVariables) => {
    const headers = readHeaders(request.headers);
    const values = path.read(pathVariables);
    const question = request.target.indexOf("?");
    return {
      ignoreBody: headers.ignoreBody,
      fill(message) {
        headers.fill(message);
        path.set(message, values);
        if (question !== -1) {
          readQuery(message, request.target, question + 1);
        }
        fillIfMatch?.(request.headers, message);
      },
    };
  };
}

/** The fields that parameters can't fill, for they have another source. */
function takenFields({ method, pathFields }: Route, body: string): BoundFields {
  if (body === "*") {
    return "body";
  }
  const { fields } = method.input;
  const sources: [FieldPath, BindingSource][] = pathFields.map((path) => [path, "path"]);
  for (const field of fields) {
    if (fieldRule(field).header !== "") {
      sources.push([[field], "header"]);
    } else if (field.name === body) {
      sources.push([[field], "body"]);
    }
  }
  return createBoundFields(sources);
}
