import { contentEncodings, decompress, decompressStream } from "#platform/compression";
import type { ContentEncoding } from "../../../platform/compression.ts";
import { RequestError } from "../../../http/request-error.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import { decompressInSteps } from "../../../call/decompress-in-steps.ts";

const supported = (["gzip", "br", "zstd"] as const).filter((encoding) => contentEncodings.includes(encoding));

/** The content coding of a request; undefined for none. Throws a RequestError of status 415 if it is not supported. */
function codingOf(request: GatewayRequest): ContentEncoding | undefined {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") {
    return undefined;
  }
  const coding = supported.find((each) => each === encoding || (each === "gzip" && encoding === "x-gzip"));
  if (coding === undefined) {
    const names = supported.join(", ");
    // RFC 9110, section 15.5.16: Accept-Encoding lists the supported codings.
    throw new RequestError(415, "unsupported_media_type", `the Content-Encoding must be one of ${names}`, {
      headers: { "accept-encoding": names },
    });
  }
  return coding;
}

/** Reads the whole body and decompresses it. `maxBytes` limits the size before and after decompression. */
export function readDecoded(request: GatewayRequest, maxBytes: number): Promise<Uint8Array> {
  const coding = codingOf(request);
  const body = request.readBody(maxBytes);
  return coding === undefined ? body : decode(body, coding, maxBytes, request);
}

async function decode(
  body: Promise<Uint8Array>,
  coding: ContentEncoding,
  maxBytes: number,
  request: GatewayRequest,
): Promise<Uint8Array> {
  const bytes = await body;
  const decompressTo = async (maxOutputLength: number): Promise<Uint8Array> => {
    try {
      return await decompress(bytes, coding, maxOutputLength);
    } catch (error) {
      throw error instanceof RangeError ? error : invalidEncoding();
    }
  };
  try {
    return await decompressInSteps(decompressTo, maxBytes, request);
  } catch (error) {
    throw error instanceof RangeError
      ? new RequestError(413, "payload_too_large", `the decompressed body is larger than ${maxBytes} bytes`)
      : error;
  }
}

/**
 * Streams the decompressed body. The caller must limit the size. Throws a RequestError of status 415, before reading,
 * if the coding is not supported.
 */
export function streamDecoded(request: GatewayRequest): AsyncIterable<Uint8Array> {
  const coding = codingOf(request);
  return coding === undefined ? request.streamBody() : decompressStream(request.streamBody(), coding, invalidEncoding);
}

function invalidEncoding(): RequestError {
  return new RequestError(400, "invalid_encoding", "the body does not match its Content-Encoding");
}
