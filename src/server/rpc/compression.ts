import { promisify } from "node:util";
import { brotliCompress, brotliDecompress, constants, gunzip, gzip } from "node:zlib";
import type { ConnectError } from "@connectrpc/connect";
import { decompressInSteps, type GatewayRequest } from "@flowgate/gateway/server";
import { FlowgateError } from "../../errors.ts";
import { toConnectError } from "../errors/connect-error.ts";
import { undecodable } from "./decode.ts";

export type Compression = {
  readonly name: string;
  compress(bytes: Uint8Array): Promise<Uint8Array>;
  /** Decompresses a message of the request to at most `maxBytes`. */
  decompress(bytes: Uint8Array, maxBytes: number, request: Pick<GatewayRequest, "reserve">): Promise<Uint8Array>;
};

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>;

const compressGzip = promisify(gzip);
const compressBrotli = promisify(brotliCompress);

/** In order of preference. */
export const compressions: readonly Compression[] = [
  { name: "gzip", compress: (bytes) => compressGzip(bytes), decompress: bounded(promisify(gunzip)) },
  {
    name: "br",
    // At quality 4, Brotli is as fast as gzip.
    compress: (bytes) => compressBrotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
    decompress: bounded(promisify(brotliDecompress)),
  },
];

function bounded(decompress: Decompress): Compression["decompress"] {
  return async (bytes, maxBytes, request) => {
    if (bytes.length === 0) {
      return bytes;
    }
    const attempt = async (maxOutputLength: number): Promise<Uint8Array> => {
      try {
        return await decompress(bytes, { maxOutputLength });
      } catch (error) {
        throw error instanceof RangeError ? error : undecodable();
      }
    };
    try {
      return await decompressInSteps(attempt, maxBytes, request);
    } catch (error) {
      throw error instanceof RangeError ? messageTooLarge(maxBytes) : error;
    }
  };
}

/** The error, in any protocol, for a request message that exceeds its limit. */
export function messageTooLarge(maxBytes: number): ConnectError {
  const message = `the request message is larger than ${maxBytes} bytes`;
  return toConnectError(new FlowgateError("payload_too_large", message));
}
