/**
 * Formats a text as the value of grpc-message: percent-encodes `%` and everything outside of 0x20 to 0x7E
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, Status-Message).
 */
export function formatGrpcMessage(text: string): string {
  return text.replaceAll(/[^\u0020-\u0024\u0026-\u007e]+/gu, (part) => encodeURIComponent(part));
}
