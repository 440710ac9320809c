/** A content coding of requests and responses (RFC 9110, section 8.4.1). */
export type ContentEncoding = "br" | "gzip" | "zstd";
