import type { EncodedRequest } from "@flowgate/gateway";
import { RequestError } from "@flowgate/gateway/server";
import { FlowgateError } from "../errors.ts";

/** Returns an error that names the missing header if an HTTP body has the shape of the other API version. */
export function findApiVersionMismatch(source: EncodedRequest | undefined): FlowgateError | undefined {
  if (source?.format.kind !== "http") {
    return undefined;
  }
  const isV2 = source.format.headers["service-api-version"] === "v2";
  const shape = firstCharacter(source.bytes);
  if (!isV2 && shape === "{") {
    return new FlowgateError(
      "invalid_flows",
      'the body: must be an array of nodes in API version v1, the default; for an object send the header "Service-API-Version: v2"',
    );
  }
  if (isV2 && shape === "[") {
    return new FlowgateError(
      "invalid_flows",
      'the body: must be an object in API version v2; for an array of nodes send the header "Service-API-Version: v1"',
    );
  }
  return undefined;
}

/** Whether the body is valid JSON, but not a valid message. For this error the gateway sets no reason. */
export function isInvalidMessage(error: unknown): boolean {
  return error instanceof RequestError && error.status === 400 && error.reason === undefined;
}

const whitespace: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));

function firstCharacter(json: Uint8Array): string {
  const first = json.find((byte) => !whitespace.has(byte));
  return first === undefined ? "" : String.fromCharCode(first);
}
