import { createHmac } from "node:crypto";

/** The key of a secret such as `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`; undefined if it is invalid. */
export function parseSecret(secret: string): Buffer | undefined {
  const [, encoded = ""] = /^(?:whsec_)?([A-Za-z\d+/]+={0,2})$/.exec(secret) ?? [];
  const key = Buffer.from(encoded, "base64");
  return key.length >= minKeyBytes && key.length <= maxKeyBytes ? key : undefined;
}

const minKeyBytes = 24;
const maxKeyBytes = 64;

/** The headers of a request, as https://www.standardwebhooks.com specifies. The id of an event is the same for each attempt. */
export function signedHeaders(
  id: string,
  body: string,
  key: Buffer | undefined,
  nowMs = Date.now(),
): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const signature = key && createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    ...(signature !== undefined && { "webhook-signature": `v1,${signature}` }),
  };
}
