import { hkdfSync } from "node:crypto";
import { seal, unseal } from "@flowgate/base/seal";
import type { CredentialKeys } from "../store/credential-keys.ts";

export class Sealer {
  readonly #keys: Pick<CredentialKeys, "current" | "all">;

  constructor(keys: Pick<CredentialKeys, "current" | "all">) {
    this.#keys = keys;
  }

  /** Encrypts a value as JSON. It can be read with the same context only. */
  seal(context: string, value: unknown): Buffer {
    return seal(this.#keys.current().sessionBytes, context, JSON.stringify(value));
  }

  /** Returns undefined if the bytes were sealed with another key or context, or changed. */
  unseal(context: string, sealed: Uint8Array): unknown {
    for (const { sessionBytes } of this.#keys.all()) {
      const text = unseal(sessionBytes, context, sealed);
      if (text !== undefined) {
        return JSON.parse(text.toString()) as unknown;
      }
    }
    return undefined;
  }

  /** Derives an access token from two texts. Requires a key. */
  deriveAccessToken(first: string, second: string): string {
    return derive(this.#keys.current().sessionBytes, first, second);
  }

  /** The tokens that `deriveAccessToken` may have derived. */
  accessTokens(first: string, second: string): readonly string[] {
    return this.#keys.all().map(({ sessionBytes }) => derive(sessionBytes, first, second));
  }
}

function derive(key: Buffer, first: string, second: string): string {
  return Buffer.from(hkdfSync("sha256", key, first, `access token v1 ${second}`, 32)).toString("base64url");
}
