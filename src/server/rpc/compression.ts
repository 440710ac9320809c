import { promisify } from "node:util";
import { brotliCompress, brotliDecompress, constants, gunzip, gzip } from "node:zlib";
import type { ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { FlowgateError } from "../../errors.ts";
import { toConnectError } from "../errors/connect-error.ts";
import { undecodable } from "./decode.ts";

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>;

const compressGzip = promisify(gzip);
const compressBrotli = promisify(brotliCompress);

/** In order of preference. */
export const compressions: readonly Compression[] = [
  { name: "gzip", compress: (bytes) => compressGzip(bytes), decompress: bounded(promisify(gunzip) as Decompress) },
  {
    name: "br",
    // At quality 4, Brotli is as fast as gzip.
    compress: (bytes) => compressBrotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
    decompress: bounded(promisify(brotliDecompress) as Decompress),
  },
];

function bounded(decompress: Decompress): Compression["decompress"] {
  return async (bytes, maxBytes) => {
    if (bytes.length === 0) {
      return bytes as Uint8Array<ArrayBuffer>;
    }
    try {
      return (await decompress(bytes, { maxOutputLength: maxBytes })) as Uint8Array<ArrayBuffer>;
    } catch (error) {
      throw error instanceof RangeError ? messageTooLarge(maxBytes) : undecodable();
    }
  };
}

/** The error, in any protocol, for a request message that exceeds its limit. */
export function messageTooLarge(maxBytes: number): ConnectError {
  const message = `the request message is larger than ${maxBytes} bytes`;
  return toConnectError(new FlowgateError("payload_too_large", message));
}
