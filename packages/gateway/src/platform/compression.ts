/** A content coding of requests and responses (RFC 9110, section 8.4.1). */
export type ContentEncoding = "br" | "gzip" | "zstd";

export type StreamCompression = {
  /** Resolves with the complete compressed form of the chunk. */
  write(chunk: string | Uint8Array): Promise<Uint8Array>;
  /** Resolves with the final bytes, and frees the compressor. */
  end(): Promise<Uint8Array>;
  free(): void;
};
