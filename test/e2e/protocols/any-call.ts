import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodStreaming,
  type DescMethodUnary,
  getOption,
} from "@bufbuild/protobuf";
import { ConnectError, type Transport } from "@connectrpc/connect";
import { http } from "@flowgate/gateway/gen/google/api/annotations_pb.js";
import { json } from "../rest.ts";

// Calls of any operation with an empty request, for tests of all operations.

/** The text is read of errors only: a response can be an endless stream, which is ended. */
export async function callRest(
  url: string,
  method: DescMethod,
  headers: Readonly<Record<string, string>>,
): Promise<Pick<Response, "ok" | "status" | "headers"> & { readonly text: string }> {
  const { pattern } = getOption(method, http);
  if (pattern.case === undefined || pattern.case === "custom") {
    throw new Error(`${method.name} has no path`);
  }
  const path = pattern.value.replaceAll(/\{[^}]*\}/g, "x");
  const body = pattern.case === "get" || pattern.case === "delete" ? {} : { headers: json, body: "{}" };
  const controller = new AbortController();
  const response = await fetch(url + path, {
    method: pattern.case.toUpperCase(),
    ...body,
    headers: { ...body.headers, ...headers },
    signal: controller.signal,
  });
  const { ok, status } = response;
  const text = ok ? "" : await response.text();
  controller.abort();
  return { ok, status, headers: response.headers, text };
}

/** The error of a call; undefined: it has responded. Of a stream, the first message is awaited. */
export async function callRpc(
  transport: Transport,
  method: DescMethod,
  headers: Readonly<Record<string, string>>,
): Promise<ConnectError | undefined> {
  if (method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming") {
    throw new Error(`${method.name} is a stream of requests`);
  }
  const controller = new AbortController();
  const input = create<DescMessage>(method.input);
  try {
    if (method.methodKind === "unary") {
      await transport.unary(method as DescMethodUnary, controller.signal, undefined, headers, input);
    } else {
      const streaming = method as DescMethodStreaming;
      const { message } = await transport.stream(streaming, controller.signal, undefined, headers, only(input));
      await message[Symbol.asyncIterator]().next();
      controller.abort();
    }
    return undefined;
  } catch (error) {
    return ConnectError.from(error);
  }
}

async function* only<T>(item: T): AsyncGenerator<T> {
  yield item;
}
