import { base64Decode } from "@bufbuild/protobuf/wire";
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextKey,
  createServiceImplSpec,
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  type HandlerContext,
  type Interceptor,
  type MethodImpl,
} from "@connectrpc/connect";
import { FlowgateError } from "../../errors.ts";
import { createJsonCheck, maxBodyBytesOf } from "../../transcoding/index.ts";
import { exchangeKey } from "../exchange.ts";
import type { Gate } from "../interceptors.ts";

// Connect 2.2 answers INTERNAL (500) where a message can't be decompressed or decoded, quotes the
// client's JSON in what it says, and takes repeated keys. Here such calls end with INVALID_ARGUMENT and
// an error that says what does not fit.

const MAX_DEPTH = 100;

/** Connect's own limit of a message. */
const mostBytes = 0xffffffff;

/** Registers each method with a check of its own for messages in JSON, and its own limit of their size. */
export function checkJson(router: ConnectRouter, options: ConnectRouterOptions): ConnectRouter {
  const add = (
    method: DescMethod,
    implementation: MethodImpl<DescMethod>,
    { readMaxBytes: most = mostBytes, ...own }: Partial<ConnectRouterOptions>,
  ): void => {
    // Connect decodes the bytes of every JSON message with this, decompressed and behind the gate.
    const textDecoder = { decode: createJsonCheck(method, MAX_DEPTH) };
    const jsonOptions = { ...own.jsonOptions, textDecoder };
    router.rpc(method, implementation, { ...own, jsonOptions, readMaxBytes: maxBodyBytesOf(method, most) });
  };
  const checked: ConnectRouter = {
    handlers: router.handlers,
    service(service: DescService, implementation, own) {
      for (const { method, impl } of Object.values(createServiceImplSpec(service, implementation).methods)) {
        add(method, impl as MethodImpl<DescMethod>, { ...options, ...own });
      }
      return checked;
    },
    rpc(method, implementation, own) {
      add(method, implementation as MethodImpl<DescMethod>, { ...options, ...own });
      return checked;
    },
  };
  return checked;
}

const hasArrived = createContextKey(false, { description: "the request message was decoded" });

/** Innermost: tells that the message was read; of a stream, each of them. */
export const noteArrival: Interceptor = (next) => (request) => {
  if (request.stream) {
    return next({ ...request, message: noteArrivals(request.message, request.contextValues) });
  }
  request.contextValues.set(hasArrived, true);
  return next(request);
};

async function* noteArrivals<T>(messages: AsyncIterable<T>, values: ContextValues): AsyncGenerator<T> {
  for await (const message of messages) {
    values.set(hasArrived, true);
    yield message;
    values.set(hasArrived, false);
  }
  values.set(hasArrived, true);
}

/** A gate that has the client blamed for what goes wrong between it and the arrival of the message. */
export function blameClient(gate: Gate): Gate {
  return (context) => {
    const admitted = gate(context);
    return admitted === undefined ? watch(context) : admitted.then(() => watch(context));
  };
}

/** Connect aborts the context with the error that ends a call, before it writes the error down. */
function watch(context: HandlerContext & { abort?: (reason?: unknown) => void }): void {
  const { abort } = context;
  if (abort === undefined) {
    return;
  }
  context.abort = (reason) => {
    if (!context.values.get(hasArrived) && reason instanceof ConnectError && reason.details.length === 0) {
      blame(reason);
    }
    if (reason instanceof Error) {
      context.values.get(exchangeKey)?.fail(ConnectError.from(reason, Code.Internal).code);
    }
    abort(reason);
  };
}

function blame(error: ConnectError): void {
  if (error.code === Code.ResourceExhausted) {
    const [, most = ""] = /readMaxBytes (\d+)/.exec(error.rawMessage) ?? [];
    reword(error, new FlowgateError("payload_too_large", `the request message is larger than ${most} bytes`));
  } else if (error.code === Code.InvalidArgument && error.rawMessage.startsWith("protocol error")) {
    // Of a header: a deadline, for example.
    error.details.push(...new FlowgateError("invalid_request", "").details);
  } else if (error.code === Code.Internal || error.code === Code.InvalidArgument) {
    reword(error, new FlowgateError("invalid_request", "the request message can't be decoded"));
  }
}

/** Connect goes on with the error that it has. */
function reword(error: ConnectError, { code, details, rawMessage, message }: FlowgateError): void {
  Object.assign(error, { code, details, rawMessage, message });
}

/** Whether the message in the query of a Connect GET is base64 where it says so; Connect fails on it with 500. */
export function hasReadableQuery(target: string): boolean {
  const question = target.indexOf("?");
  const query = new URLSearchParams(question === -1 ? "" : target.slice(question));
  if (query.get("base64") !== "1") {
    return true;
  }
  try {
    base64Decode(query.get("message") ?? "");
    return true;
  } catch {
    return false;
  }
}
