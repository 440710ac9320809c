import { create, type DescField, type DescMessage, type DescMethodUnary, type Message } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, Interceptor } from "@connectrpc/connect";
import { addHeaders, type Answer } from "./answer.ts";
import { createBodyReader, type BodyReader } from "./body.ts";
import { CallContext, createInvoke } from "./call.ts";
import { createFaultAnswer, errorAnswer } from "./error.ts";
import { Fault } from "./fault.ts";
import { createHeaderReader, createHeaderWriter } from "./header.ts";
import type { Implementation } from "./implementations.ts";
import { fieldWriter, messageWriter, type JsonWriter } from "./json/write.ts";
import { accepts, matchesETag } from "./media.ts";
import type { TranscodingRequest } from "./request.ts";
import { methodRule } from "./rules.ts";

/** One way to reach one RPC, compiled: everything that can be known at start-up is. */
export type Operation = {
  readonly method: DescMethodUnary;
  /** Answers a request whose path and method lead here; never rejects. */
  run(request: TranscodingRequest): Promise<Answer>;
};

export type OperationOptions = {
  readonly interceptors: readonly Interceptor[];
  readonly requestGate: ((context: HandlerContext) => void | Promise<void>) | undefined;
  readonly maxBodyBytes: number;
  readonly maxDepth: number;
  /** The rule's body and response_body, where no variant says otherwise. */
  readonly body: string;
  readonly responseBody: string;
};

/** What differs between the variants of one operation. */
type Shape = {
  readonly read: BodyReader;
  readonly write: JsonWriter;
  readonly status: number;
  /** A success has a body. */
  readonly hasBody: boolean;
  /** The bodies of frozen messages: encoded once. */
  readonly encoded: WeakMap<Message, string | Buffer>;
};

export function createOperation(
  { method, call }: Implementation,
  options: OperationOptions,
  findMessage: (typeName: string) => DescMessage | undefined,
): Operation {
  const rule = methodRule(method);
  const invoke = createInvoke(method, call, options.interceptors);
  const selectShape = compileShapes(method, options);
  const readHeaders = createHeaderReader(method.input);
  const setResponseFields = createHeaderWriter(method.output);
  const etagField = rule.etag === "" ? undefined : findStringField(method.output, rule.etag);
  const faultAnswer = createFaultAnswer({
    invalid: rule.invalid === "" ? "invalid_argument" : rule.invalid,
    message: rule.fault === "" ? undefined : requireMessage(rule.fault, findMessage),
  });
  const fixedHeaders = rule.headers.map(({ name, value }) => [name.toLowerCase(), value] as const);
  if (rule.variants !== undefined && method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS) {
    fixedHeaders.push(["vary", rule.variants.header]);
  }

  const answer = (shape: Shape, request: TranscodingRequest, response: Message, set: Headers | undefined): Answer => {
    const headers: Record<string, string | string[]> = {};
    if (set !== undefined) {
      addHeaders(headers, set);
    }
    setResponseFields(response, headers);
    if (etagField !== undefined) {
      const etag = `"${String((response as Message & Record<string, unknown>)[etagField.localName])}"`;
      headers["etag"] = etag;
      const ifNoneMatch = request.headers["if-none-match"];
      if (ifNoneMatch !== undefined && matchesETag(ifNoneMatch, etag)) {
        return { status: 304, headers, body: undefined };
      }
    }
    if (!shape.hasBody) {
      return { status: shape.status, headers, body: undefined };
    }
    headers["content-type"] = "application/json";
    return { status: shape.status, headers, body: encode(shape, response) };
  };

  return {
    method,
    async run(request) {
      const context = new CallContext(method, request);
      let result: Answer;
      try {
        // Not awaited where it decides at once: an await costs a turn of the microtask queue.
        const gated = options.requestGate?.(context);
        if (gated !== undefined) {
          await gated;
        }
        const shape = selectShape(request);
        refuseQuery(request.target);
        if (shape.hasBody && !accepts(request.headers.accept, "application/json")) {
          throw new Fault(406, "not_acceptable", "this operation answers application/json");
        }
        const fromHeaders = readHeaders(request.headers);
        const message = fromHeaders.ignoreBody ? create(method.input) : await shape.read(request);
        fromHeaders.fill(message);
        const response = await invoke(message, context);
        result = answer(shape, request, response, context.setHeaders());
      } catch (error) {
        result = error instanceof Fault ? faultAnswer(error) : errorAnswer(error);
      }
      context.finish();
      for (const [name, value] of fixedHeaders) {
        result.headers[name] = value;
      }
      return result;
    },
  };
}

/** Below this Node sends a text faster than bytes: it writes it together with the head. */
const SMALL_CHARS = 16 * 1024;

function encode(shape: Shape, response: Message): string | Buffer {
  if (!Object.isFrozen(response)) {
    return JSON.stringify(shape.write(response));
  }
  let encoded = shape.encoded.get(response);
  if (encoded === undefined) {
    const json = JSON.stringify(shape.write(response));
    encoded = json.length < SMALL_CHARS ? json : Buffer.from(json);
    shape.encoded.set(response, encoded);
  }
  return encoded;
}

function compileShapes(method: DescMethodUnary, options: OperationOptions): (request: TranscodingRequest) => Shape {
  const rule = methodRule(method);
  const compile = (body: string, responseBody: string, status: number): Shape => ({
    read: createBodyReader(method.input, {
      body,
      consumes: rule.consumes,
      ignoreUnknown: rule.ignoreUnknown,
      maxBytes: options.maxBodyBytes,
      maxDepth: options.maxDepth,
    }),
    write: responseBody === "" ? messageWriter(method.output) : responseFieldWriter(method.output, responseBody),
    status: status || rule.status || 200,
    hasBody: !rule.noContent && status !== 204 && status !== 205 && rule.status !== 204,
    encoded: new WeakMap(),
  });
  const { variants } = rule;
  if (variants === undefined) {
    const shape = compile(options.body, options.responseBody, 0);
    return () => shape;
  }
  const header = variants.header.toLowerCase();
  const shapes = new Map(
    variants.variants.map(({ value, body, responseBody, status }) => [value, compile(body, responseBody, status)]),
  );
  if (!shapes.has(variants.default)) {
    throw new Error(`${method.toString()}: its variants have none for the default "${variants.default}"`);
  }
  const expected = [...shapes.keys()].join(", ");
  return (request) => {
    const value = request.headers[header] ?? variants.default;
    const shape = typeof value === "string" ? shapes.get(value) : undefined;
    if (shape === undefined) {
      const reason = variants.invalid === "" ? undefined : variants.invalid;
      throw new Fault(400, reason, `${variants.header}: must be one of ${expected}`);
    }
    return shape;
  };
}

function responseFieldWriter(desc: DescMessage, name: string): JsonWriter {
  const field = desc.fields.find((each) => each.name === name);
  if (field === undefined || field.oneof !== undefined) {
    throw new Error(`${desc.typeName} has no field "${name}" that can be the response_body`);
  }
  const write = fieldWriter(field);
  return (message) => write((message as Record<string, unknown>)[field.localName]);
}

function refuseQuery(target: string): void {
  const question = target.indexOf("?");
  if (question !== -1 && question < target.length - 1) {
    throw new Fault(400, "invalid_argument", "this operation takes no query parameters");
  }
}

function findStringField(desc: DescMessage, name: string): DescField {
  const field = desc.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "scalar") {
    throw new Error(`${desc.typeName} has no scalar field "${name}" for the ETag`);
  }
  return field;
}

function requireMessage(name: string, find: (typeName: string) => DescMessage | undefined): DescMessage {
  const message = find(name);
  if (message === undefined) {
    throw new Error(`no message ${name} in the files of the registered services`);
  }
  return message;
}
