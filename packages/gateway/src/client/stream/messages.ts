import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { separatePart } from "../../json/exact.ts";
import { isObject } from "../../json/is-object.ts";
import type { Variant } from "../../routing/route.ts";
import { findRawBody } from "../../schema/http-body.ts";
import { unreadable, type DocumentReader } from "../response/document.ts";
import type { ErrorReader } from "../response/error.ts";
import { createResponseHeaderReader } from "../response/headers.ts";
import { createSplitter, type StreamDocument } from "./framing.ts";

/** Reads the messages of a successful response as its chunks arrive. */
export type StreamReader = (response: Response, chunks: AsyncIterable<Uint8Array>) => AsyncGenerator<Message>;

/** Compiles the reader of a response with a stream of messages: JSON in any framing, or the bytes of google.api.HttpBody. */
export function createStreamReader(
  method: DescMethod,
  variant: Variant,
  document: DocumentReader,
  errors: ErrorReader,
): StreamReader {
  const raw = findRawBody(method.output, variant.responseBody);
  const setHeaderFields = createResponseHeaderReader(method);
  const readDocument = createStreamDocumentReader(method, variant, document, errors);
  const messages: StreamReader =
    raw === undefined
      ? (response, chunks) => readJson(response, chunks, (each) => readDocument(each, response))
      : async function* (response, chunks) {
          const contentType = response.headers.get("content-type") ?? "";
          for await (const data of chunks) {
            yield raw.wrap({ contentType, data });
          }
        };
  return async function* (response, chunks) {
    let isFirst = true;
    for await (const message of messages(response, chunks)) {
      if (isFirst) {
        isFirst = false;
        setHeaderFields(message, response.headers);
      }
      yield message;
    }
  };
}

async function* readJson(
  response: Response,
  chunks: AsyncIterable<Uint8Array>,
  readDocument: (document: StreamDocument) => Message,
): AsyncGenerator<Message> {
  const contentType = response.headers.get("content-type") ?? "application/json";
  const splitter = createSplitter(contentType);
  if (splitter === undefined) {
    throw unreadable(`it is ${contentType}, not a stream of JSON`);
  }
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    for (const each of split(() => splitter.push(decoder.decode(chunk, { stream: true })))) {
      yield readDocument(each);
    }
  }
  for (const each of split(() => splitter.end())) {
    yield readDocument(each);
  }
}

function split(produce: () => StreamDocument[]): StreamDocument[] {
  try {
    return produce();
  } catch (cause) {
    throw new ConnectError(`can't read the stream: ${(cause as Error).message}`, Code.DataLoss);
  }
}

/** Compiles the reader of a document in a stream. It throws the error that the document contains. */
function createStreamDocumentReader(
  method: DescMethod,
  { responseBody }: Variant,
  document: DocumentReader,
  errors: ErrorReader,
): (document: StreamDocument, response: Response) => Message {
  const field = method.output.fields.find(({ name }) => name === responseBody);
  const { fields } = (field === undefined ? method.output : field.message) ?? { fields: [] };
  const hasMember = (name: string): boolean => fields.some((each) => each.jsonName === name || each.name === name);
  const [hasResult, hasError] = [hasMember("result"), hasMember("error")];
  return ({ text, kind, wrapping }, response) => {
    const json = document.parse(text);
    if (kind === "error") {
      throw errors.fromStream(json, response);
    }
    const [key, ...others] = isObject(json) && wrapping !== "never" ? Object.keys(json) : [];
    if (key === undefined || others.length > 0) {
      return document.read(json);
    }
    const value = (json as Record<string, unknown>)[key];
    const isWrapper = (name: string, isField: boolean): boolean => key === name && (!isField || wrapping === "always");
    if (isWrapper("error", hasError) && isObject(value)) {
      throw errors.fromStream(value, response);
    }
    return document.read(isWrapper("result", hasResult) ? separatePart(value, json) : json);
  };
}
