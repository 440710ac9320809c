import { createCipheriv, hash, randomBytes } from "node:crypto";
import type { CredentialSets } from "../src/configuration.ts";

/** Encrypts credentials in Node-RED's `$` format. */
export function encryptCredentials(secret: string, sets: CredentialSets): string {
  const iv = randomBytes(16);
  const cipher = createCipheriv("aes-256-ctr", hash("sha256", secret, "buffer"), iv);
  const json = JSON.stringify(Object.fromEntries(Array.from(sets, ([id, set]) => [id, Object.fromEntries(set)])));
  return iv.toString("hex") + Buffer.concat([cipher.update(json, "utf8"), cipher.final()]).toString("base64");
}
