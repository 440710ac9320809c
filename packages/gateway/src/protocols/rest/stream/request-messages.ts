import type { DescMessage, Message } from "@bufbuild/protobuf";
import { type BodyOptions, createJsonParser, createRawTypeCheck, unsupportedMediaType } from "../request/body.ts";
import { streamDecoded } from "../request/content-encoding.ts";
import { RequestError } from "../../../http/request-error.ts";
import { findRawBody, type RawBodyTarget } from "../../../schema/http-body.ts";
import { isUtf8Charset, JSON_TYPE, mediaTypeOf } from "../../../http/media-type.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import { isNdjson, NDJSON_TYPE } from "./framing.ts";
import { concatBytes } from "#platform/bytes";

/** Reads the messages of a streamed request body. Throws a RequestError, immediately or during the iteration. */
export type RequestMessages = (request: GatewayRequest) => AsyncIterable<Message>;

/** The maximum size of a raw body's chunk in one message; larger chunks of the connection are split. */
const MAX_CHUNK_BYTES = 64 * 1024;

/**
 * Compiles the reader of a client stream: one message for each line of NDJSON, for each item of a JSON array, or for each chunk of
 * a raw body. The limits of `options` apply to each message.
 */
export function createRequestMessages(input: DescMessage, options: Omit<BodyOptions, "parameters">): RequestMessages {
  const raw = findRawBody(input, options.body);
  if (raw !== undefined) {
    const assertType = createRawTypeCheck(options.consumes);
    return (request) => {
      const contentType = request.headers["content-type"];
      assertType(contentType);
      return readChunks(request.hasBody() ? streamDecoded(request) : [], contentType ?? "", raw);
    };
  }
  const other = options.consumes.find((type) => !isNdjson(type) && type !== JSON_TYPE);
  if (other !== undefined) {
    throw new Error(`a stream of requests must be ${NDJSON_TYPE} or ${JSON_TYPE}, not ${other}`);
  }
  const parse = createJsonParser(input, options);
  const takesLines = options.consumes.length === 0 || options.consumes.some(isNdjson);
  const takesArray = options.consumes.length === 0 || options.consumes.includes(JSON_TYPE);
  const supported = [...(takesLines ? [NDJSON_TYPE] : []), ...(takesArray ? [JSON_TYPE] : [])].join(", ");
  return (request) => {
    const contentType = request.headers["content-type"];
    if (contentType === undefined && !request.hasBody()) {
      return none();
    }
    const type = contentType === undefined || !isUtf8Charset(contentType) ? "" : mediaTypeOf(contentType);
    const isArray = takesArray && type === JSON_TYPE;
    if (!isArray && !(takesLines && isNdjson(type))) {
      throw unsupportedMediaType(supported);
    }
    if (!request.hasBody()) {
      return none();
    }
    const body = streamDecoded(request);
    const parseItem = (bytes: Uint8Array): Message => parse(bytes, type);
    return isArray
      ? readMessages(readItems(body, options.maxBytes), parseItem, atItem)
      : readMessages(readLines(body, options.maxBytes), parseItem, atLine);
  };
}

// oxlint-disable-next-line typescript/require-await
async function* none(): AsyncGenerator<never> {}

type Located = (number: number, error: RequestError) => RequestError;

async function* readMessages(
  documents: AsyncIterable<StreamDocument>,
  parse: (bytes: Uint8Array) => Message,
  located: Located,
): AsyncGenerator<Message> {
  for await (const { bytes, number } of documents) {
    let message: Message;
    try {
      message = parse(bytes);
    } catch (error) {
      throw error instanceof RequestError ? located(number, error) : error;
    }
    yield message;
  }
}

/** Adds the number of the line to an error, in place of the position's line number within the document. */
function atLine(number: number, error: RequestError): RequestError {
  return at(`line ${number}`, error, error.message.replace(/\(line 1, (column \d+)\)$/, "($1)"));
}

/** Adds the number of the item. The position is that in its text. */
function atItem(number: number, error: RequestError): RequestError {
  return at(`item ${number}`, error, error.message);
}

function at(place: string, { status, reason, headers, repeatsInput }: RequestError, message: string): RequestError {
  const text = message.replace(/^the body(?: is|:) /, "");
  return new RequestError(status, reason, `${place}: ${text}`, { headers, repeatsInput });
}

/** An empty body is one message, which has the media type and the parameters. */
async function* readChunks(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  contentType: string,
  raw: RawBodyTarget,
): AsyncGenerator<Message> {
  let isEmpty = true;
  for await (const chunk of body) {
    for (let start = 0; start < chunk.length; start += MAX_CHUNK_BYTES) {
      isEmpty = false;
      yield raw.wrap({ contentType, data: chunk.subarray(start, start + MAX_CHUNK_BYTES) });
    }
  }
  if (isEmpty) {
    yield raw.wrap({ contentType, data: new Uint8Array() });
  }
}

const NEWLINE = 0x0a;

/**
 * Splits a streamed body into lines. Blank lines are counted and skipped; the last line may lack a line break. Throws a RequestError
 * of status 413 as soon as a line exceeds `maxBytes`.
 */
async function* readLines(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<StreamDocument> {
  const { append, finish } = createDocumentCollector("line", maxBytes);
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      append(chunk.subarray(start, end));
      start = end + 1;
      const line = finish();
      if (!isBlank(line.bytes)) {
        yield line;
      }
    }
    if (start < chunk.length) {
      append(chunk.subarray(start));
    }
  }
  const last = finish();
  if (!isBlank(last.bytes)) {
    yield last;
  }
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Splits a streamed JSON array into its items as they arrive. An item is the text between two separators: a JSON parser
 * reports its errors. A blank body has no items. Throws a RequestError if the body is not an array, or of status 413 as
 * soon as an item exceeds `maxBytes`.
 */
async function* readItems(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<StreamDocument> {
  const findSeparator = createSeparatorSearch();
  let place: "before" | "inside" | "after" = "before";
  const { append, finish } = createDocumentCollector("item", maxBytes);
  for await (const chunk of body) {
    let at = 0;
    if (place === "before") {
      at = endOfSpace(chunk, at);
      if (at === chunk.length) {
        continue;
      }
      if (chunk[at] !== OPEN_BRACKET) {
        throw malformed("a JSON array was expected");
      }
      place = "inside";
      at++;
    }
    while (place === "inside" && at < chunk.length) {
      const end = findSeparator(chunk, at);
      append(chunk.subarray(at, end));
      at = end + 1;
      if (end === chunk.length) {
        break;
      }
      const item = finish();
      place = chunk[end] === CLOSE_BRACKET ? "after" : place;
      // Without items, there is nothing but space between the brackets.
      if (place === "inside" || item.number > 1 || endOfSpace(item.bytes, 0) < item.bytes.length) {
        yield item;
      }
    }
    if (place === "after" && endOfSpace(chunk, at) < chunk.length) {
      throw malformed("unexpected text after the end of the array");
    }
  }
  if (place === "inside") {
    throw malformed("unexpected end");
  }
}

/**
 * Creates the search for the comma or bracket that ends an item. It returns the length of the chunk if there is none; the next
 * search then continues in the next chunk.
 */
function createSeparatorSearch(): (chunk: Uint8Array, from: number) => number {
  let depth = 0;
  let inString = false;
  let isEscaped = false;
  const stepInString = (byte: number | undefined): void => {
    if (isEscaped) {
      isEscaped = false;
    } else if (byte === BACKSLASH) {
      isEscaped = true;
    } else if (byte === QUOTE) {
      inString = false;
    }
  };
  return (chunk, from) => {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at];
      if (inString) {
        stepInString(byte);
      } else if (byte === QUOTE) {
        inString = true;
      } else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
        depth++;
      } else if (depth === 0 && (byte === COMMA || byte === CLOSE_BRACKET)) {
        return at;
      } else if (depth > 0 && (byte === CLOSE_BRACKET || byte === CLOSE_BRACE)) {
        depth--;
      }
    }
    return chunk.length;
  };
}

function endOfSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (
    let byte = bytes[at];
    byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
    byte = bytes[at]
  ) {
    at++;
  }
  return at;
}

function malformed(what: string): RequestError {
  return new RequestError(400, "invalid_json", `the body is not valid JSON: ${what}`);
}

type StreamDocument = {
  readonly bytes: Uint8Array;
  /** Counted from 1. */
  readonly number: number;
};

type DocumentCollector = {
  /** Throws a RequestError of status 413 as soon as a document exceeds the limit. */
  readonly append: (piece: Uint8Array) => void;
  /** Ends the document, and begins the next one. */
  readonly finish: () => StreamDocument;
};

/** `kind` is the name of a document in errors. */
function createDocumentCollector(kind: "line" | "item", maxBytes: number): DocumentCollector {
  let pieces: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  return {
    append(piece) {
      length += piece.length;
      if (length > maxBytes) {
        throw new RequestError(413, "payload_too_large", `${kind} ${number}: longer than ${maxBytes} bytes`);
      }
      pieces.push(piece);
    },
    finish() {
      const bytes = pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : concatBytes(pieces);
      const document = { bytes, number };
      pieces = [];
      length = 0;
      number++;
      return document;
    },
  };
}
