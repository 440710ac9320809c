/** The compression of one streamed body. */
export type Compression = {
  /** Resolves with the complete compressed form of the chunk. */
  write(chunk: string | Uint8Array): Promise<Uint8Array>;
  /** Resolves with the final bytes, and frees the compressor. */
  end(): Promise<Uint8Array>;
  free(): void;
};
