import { zstdCompressSync, zstdDecompressSync } from "node:zlib";

/** Whether Node reports zstd data that ends early. Node 22 does not, and its fetch does not decode zstd. */
export const detectsTruncatedZstd = (() => {
  try {
    zstdDecompressSync(zstdCompressSync("text").subarray(0, -1));
    return false;
  } catch {
    return true;
  }
})();
