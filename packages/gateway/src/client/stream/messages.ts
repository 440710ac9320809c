import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { separatePart } from "../../json/exact.ts";
import { isObject } from "../../json/object.ts";
import type { Variant } from "../../routing/route.ts";
import { findRawBody } from "../../schema/http-body.ts";
import { type DocumentReader, unreadable } from "../response/document.ts";
import type { ErrorReader } from "../response/error.ts";
import { createResponseHeaderReader } from "../response/headers.ts";
import { mediaTypeOf } from "../../http/media-type.ts";
import { isNdjson } from "../../protocols/rest/stream/framing.ts";
import { createJsonValues } from "./json-values.ts";

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
  readDocument: (document: ReceivedDocument) => Message,
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

function split(produce: () => ReceivedDocument[]): ReceivedDocument[] {
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
): (document: ReceivedDocument, response: Response) => Message {
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

type ReceivedDocument = {
  readonly text: string;
  readonly kind: "message" | "error";
  /** Whether `{"result": …}` and `{"error": …}` wrap the message or error; "unlessField": if the message has no field of that name. */
  readonly wrapping: "never" | "unlessField" | "always";
};

/** Splits a text that arrives in pieces. Each function throws an Error if the text is not complete or not valid. */
type Splitter = { push(piece: string): ReceivedDocument[]; end(): ReceivedDocument[] };

/** Creates the splitter for the Content-Type of a stream; undefined if it is no stream of JSON. */
function createSplitter(contentType: string): Splitter | undefined {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === "text/event-stream") {
    return eventSplitter();
  }
  if (isNdjson(mediaType)) {
    return lineSplitter();
  }
  return mediaType === "application/json" || mediaType.endsWith("+json") ? valueSplitter() : undefined;
}

function eventSplitter(): Splitter {
  const parse = createEventParser();
  return {
    push: (piece) =>
      parse(piece).map(({ event, data }) => ({
        text: data,
        kind: event === "error" ? "error" : "message",
        wrapping: "never",
      })),
    end: () => [],
  };
}

function lineSplitter(): Splitter {
  let rest = "";
  const toDocuments = (lines: readonly string[]): ReceivedDocument[] =>
    lines.filter((line) => line.trim() !== "").map((text) => ({ text, kind: "message", wrapping: "unlessField" }));
  return {
    push(piece) {
      const lines = piece.split("\n");
      lines[0] = `${rest}${lines[0]}`;
      rest = lines.pop() ?? "";
      return toDocuments(lines);
    },
    end: () => toDocuments([rest]),
  };
}

/** An array, as Google and Envoy send it, or a value each line, as grpc-gateway and ASP.NET Core do. */
function valueSplitter(): Splitter {
  const values = createJsonValues();
  const toDocument = (text: string): ReceivedDocument => ({
    text,
    kind: "message",
    wrapping: values.isArray() ? "unlessField" : "always",
  });
  return { push: (piece) => values.push(piece).map(toDocument), end: () => values.end().map(toDocument) };
}

/** A server-sent event (WHATWG HTML, section 9.2). */
type ServerSentEvent = { readonly event: string; readonly data: string };

/** Creates a parser of an event stream that arrives in pieces; it returns the events that a piece completes. */
function createEventParser(): (piece: string) => ServerSentEvent[] {
  let text = "";
  let event = "";
  let data: string[] = [];
  let endsWithReturn = false;
  return (piece) => {
    const events: ServerSentEvent[] = [];
    // A carriage return ends a line. A line feed may follow it in the next piece.
    const lines = `${text}${endsWithReturn ? piece.replace(/^\n/, "") : piece}`.split(/\r\n|\n|\r/);
    endsWithReturn = piece === "" ? endsWithReturn : piece.endsWith("\r");
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) {
          events.push({ event, data: data.join("\n") });
        }
        event = "";
        data = [];
        continue;
      }
      const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (name === "data") {
        data.push(value);
      } else if (name === "event") {
        event = value;
      }
    }
    return events;
  };
}
