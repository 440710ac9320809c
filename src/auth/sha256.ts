import { hash } from "node:crypto";

export function sha256(text: string): Buffer {
  // Runs for each call with a token. Node takes three times as long to create the Buffer itself.
  return Buffer.from(hash("sha256", text, "latin1"), "latin1");
}
