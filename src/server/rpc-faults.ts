import { base64Decode } from "@bufbuild/protobuf/wire";
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextKey,
  createServiceImplSpec,
  type ConnectRouter,
  type ConnectRouterOptions,
  type HandlerContext,
  type Interceptor,
  type MethodImpl,
} from "@connectrpc/connect";
import { FlowgateError } from "../errors.ts";
import { createJsonCheck } from "../transcoding/index.ts";
import type { Gate } from "./interceptors.ts";

// Connect 2.2 answers INTERNAL (500) where a message can't be decompressed or decoded, quotes the
// client's JSON in what it says, and takes repeated keys. Here such calls end with INVALID_ARGUMENT and
// an error that says what does not fit.

const MAX_DEPTH = 100;

/** Registers each method with a check of its own for messages in JSON. */
export function checkJson(router: ConnectRouter, options: ConnectRouterOptions): ConnectRouter {
  const add = (method: DescMethod, implementation: MethodImpl<DescMethod>): void => {
    // Connect decodes the bytes of every JSON message with this, decompressed and behind the gate.
    const textDecoder = { decode: createJsonCheck(method, MAX_DEPTH) };
    const jsonOptions = { ...options.jsonOptions, textDecoder };
    router.rpc(method, implementation, { ...options, jsonOptions });
  };
  const checked: ConnectRouter = {
    handlers: router.handlers,
    service(service: DescService, implementation) {
      for (const { method, impl } of Object.values(createServiceImplSpec(service, implementation).methods)) {
        add(method, impl as MethodImpl<DescMethod>);
      }
      return checked;
    },
    rpc(method, implementation) {
      add(method, implementation as MethodImpl<DescMethod>);
      return checked;
    },
  };
  return checked;
}

const hasArrived = createContextKey(false, { description: "the request message was decoded" });

/** Innermost: tells that the message was read. */
export const noteArrival: Interceptor = (next) => (request) => {
  request.contextValues.set(hasArrived, true);
  return next(request);
};

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
    abort(reason);
  };
}

function blame(error: ConnectError): void {
  if (error.code === Code.ResourceExhausted) {
    error.details.push(...new FlowgateError("payload_too_large", "").details);
  } else if (error.code === Code.InvalidArgument && error.rawMessage.startsWith("protocol error")) {
    // Of a header: a deadline, for example.
    error.details.push(...new FlowgateError("invalid_request", "").details);
  } else if (error.code === Code.Internal || error.code === Code.InvalidArgument) {
    const { details, rawMessage } = new FlowgateError("invalid_request", "the request message can't be decoded");
    Object.assign(error, {
      code: Code.InvalidArgument,
      rawMessage,
      message: `[invalid_argument] ${rawMessage}`,
      details,
    });
  }
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
