import { promisify } from "node:util";
import { constants, zstdCompress, zstdDecompress } from "node:zlib";

const compressAsync = promisify(zstdCompress);

/** Compresses with zstd, with a checksum, on the thread pool. */
export async function compress(bytes: Uint8Array): Promise<Buffer> {
  return compressAsync(bytes, { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
}

export const decompress: (bytes: Uint8Array) => Promise<Buffer> = promisify(zstdDecompress);
