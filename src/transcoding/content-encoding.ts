import { promisify } from "node:util";
import { brotliDecompress, gunzip, zstdDecompress } from "node:zlib";
import { Fault } from "./fault.ts";
import type { TranscodingRequest } from "./request.ts";

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>;

const decompressors: ReadonlyMap<string, Decompress> = new Map([
  ["gzip", promisify(gunzip) as Decompress],
  ["x-gzip", promisify(gunzip) as Decompress],
  ["br", promisify(brotliDecompress) as Decompress],
  ["zstd", promisify(zstdDecompress) as Decompress],
]);

/** The whole body, decompressed as its Content-Encoding says; `maxBytes` holds before and after. */
export async function readDecoded(request: TranscodingRequest, maxBytes: number): Promise<Uint8Array> {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") {
    return request.readBody(maxBytes);
  }
  const decompress = decompressors.get(encoding);
  if (decompress === undefined) {
    // RFC 9110, section 15.5.16: Accept-Encoding tells what would have been taken.
    throw new Fault(415, "unsupported_media_type", "the Content-Encoding must be one of gzip, br, zstd", {
      headers: { "accept-encoding": "gzip, br, zstd" },
    });
  }
  const bytes = await request.readBody(maxBytes);
  try {
    return await decompress(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) {
      throw new Fault(413, "payload_too_large", `the body is larger than ${maxBytes} bytes, decompressed`);
    }
    throw new Fault(400, "invalid_encoding", `the body is not what its Content-Encoding says`);
  }
}
