import type { DescMessage } from "@bufbuild/protobuf";
import { RequestError } from "@flowgate/gateway/server";
import { estimateJsonBytes, estimateMessageBytes } from "./decoded-size.ts";

/**
 * Throws a RequestError of status 413 if the message of a body would take more memory than half of `memoryMb` MiB, before it is
 * decoded. The other half is for everything else that decoding allocates.
 */
export function assertDecodable(desc: DescMessage, format: "proto" | "json", body: Uint8Array, memoryMb: number): void {
  const maxBytes = (memoryMb / 2) * 1024 * 1024;
  const bytes = format === "proto" ? estimateMessageBytes(desc, body, maxBytes) : estimateJsonBytes(body);
  if (bytes > maxBytes) {
    throw tooLargeToDecode(`more than ${memoryMb / 2} MiB of memory when it is decoded, half of limits.memoryMb`);
  }
}

/** The error for a body within limits.bodyBytes that takes this, which is too much memory. */
export function tooLargeToDecode(what: string): RequestError {
  return new RequestError(413, "payload_too_large", `the body takes ${what}: send fewer or smaller nodes`);
}
