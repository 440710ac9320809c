import type { DescMessage, Message } from "@bufbuild/protobuf";
import { createRawTypeCheck, createJsonParser, unsupportedMediaType, type BodyOptions } from "../request/body.ts";
import { streamDecoded } from "../request/content-encoding.ts";
import { RequestError } from "../http/request-error.ts";
import { findRawBody, type RawBodyTarget } from "../schema/http-body.ts";
import { isUtf8Charset, mediaTypeOf } from "../http/media-type.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { isNdjson, NDJSON_TYPE } from "./framing.ts";
import { readLines } from "./lines.ts";

/** Reads the messages of a streamed request body. Throws a RequestError, immediately or during the iteration. */
export type RequestMessages = (request: TranscodingRequest) => AsyncIterable<Message>;

/** The maximum size of a raw body's chunk in one message; larger chunks of the connection are split. */
const MAX_CHUNK_BYTES = 64 * 1024;

/**
 * Compiles the reader of a client stream: one message for each line of NDJSON, or for each chunk of a raw body. The
 * limits of `options` apply to each message.
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
  const other = options.consumes.find((type) => !isNdjson(type));
  if (other !== undefined) {
    throw new Error(`a stream of requests must be ${NDJSON_TYPE}, not ${other}`);
  }
  const parse = createJsonParser(input, options);
  return (request) => {
    const contentType = request.headers["content-type"];
    if (contentType !== undefined || request.hasBody()) {
      if (contentType === undefined || !isNdjson(mediaTypeOf(contentType)) || !isUtf8Charset(contentType)) {
        throw unsupportedMediaType(NDJSON_TYPE);
      }
    }
    return readMessages(request.hasBody() ? streamDecoded(request) : [], options.maxBytes, (bytes) =>
      parse(bytes, NDJSON_TYPE),
    );
  };
}

async function* readMessages(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
  parse: (line: Uint8Array) => Message,
): AsyncGenerator<Message> {
  for await (const { bytes, number } of readLines(body, maxBytes)) {
    let message: Message;
    try {
      message = parse(bytes);
    } catch (error) {
      throw error instanceof RequestError ? atLine(number, error) : error;
    }
    yield message;
  }
}

/** Adds the number of the line to an error, in place of the position's line number within the document. */
function atLine(number: number, { status, reason, message, headers, repeatsInput }: RequestError): RequestError {
  const text = message.replace(/^the body(?: is|:) /, "").replace(/\(line 1, (column \d+)\)$/, "($1)");
  return new RequestError(status, reason, `line ${number}: ${text}`, { headers, repeatsInput });
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
