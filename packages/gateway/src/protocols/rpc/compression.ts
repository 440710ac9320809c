import { Code, ConnectError } from "@connectrpc/connect";
import { compress, contentEncodings, decompress } from "#platform/compression";
import { decompressInSteps } from "../../call/decompress-in-steps.ts";
import { RequestError } from "../../http/request-error.ts";
import type { GatewayRequest } from "../../http/request.ts";

export type MessageCompression = {
  readonly name: string;
  compress(bytes: Uint8Array): Promise<Uint8Array>;
  /** Decompresses a message of the request to at most `maxBytes`. */
  decompress(bytes: Uint8Array, maxBytes: number, request: Pick<GatewayRequest, "reserve">): Promise<Uint8Array>;
};

/** Shorter messages are not compressed, which would take more time than it saves. */
export const compressMinBytes = 1024;

/** By name, in order of preference: gzip first, which every client of the three protocols has. */
const byName: ReadonlyMap<string, MessageCompression> = new Map(
  (["gzip", "br"] as const)
    .filter((name) => contentEncodings.includes(name))
    .map((name) => [
      name,
      {
        name,
        compress: (bytes) => compress(bytes, name),
        async decompress(bytes, maxBytes, request) {
          if (bytes.length === 0) {
            return bytes;
          }
          try {
            return await decompressInSteps((limit) => decompressTo(bytes, name, limit), maxBytes, request);
          } catch (error) {
            throw error instanceof RangeError ? messageTooLarge(maxBytes) : error;
          }
        },
      },
    ]),
);

const names = [...byName.keys()].join(",");

async function decompressTo(bytes: Uint8Array, name: "gzip" | "br", maxBytes: number): Promise<Uint8Array> {
  try {
    return await decompress(bytes, name, maxBytes);
  } catch (error) {
    throw error instanceof RangeError ? error : undecodable();
  }
}

/** The compression of a request; undefined: none. Throws UNIMPLEMENTED for an unknown one, as all three protocols specify. */
export function requestCompression(
  encoding: string | string[] | undefined | null,
  acceptHeader: string,
): MessageCompression | undefined {
  if (encoding === undefined || encoding === null || encoding === "" || encoding === "identity") {
    return undefined;
  }
  const compression = byName.get(String(encoding));
  if (compression === undefined) {
    throw new ConnectError(`unknown compression: the supported encodings are ${names}`, Code.Unimplemented, {
      [acceptHeader]: names,
    });
  }
  return compression;
}

/** The first supported compression in the client's list; without a list, the compression of its request. */
export function responseCompression(
  accepted: string | string[] | undefined,
  fallback: MessageCompression | undefined,
): MessageCompression | undefined {
  if (accepted === undefined || accepted === "") {
    return fallback;
  }
  for (const name of String(accepted).split(",")) {
    const compression = byName.get(name.trim());
    if (compression !== undefined) {
      return compression;
    }
  }
  return undefined;
}

/** The error for a request message that exceeds its limit. */
export function messageTooLarge(maxBytes: number): RequestError {
  return new RequestError(413, "payload_too_large", `the request message is larger than ${maxBytes} bytes`);
}

export function undecodable(): RequestError {
  return new RequestError(400, "invalid_request", "the request message can't be decoded");
}
