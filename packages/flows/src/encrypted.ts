import { isUtf8 } from "node:buffer";
import { createDecipheriv, hash } from "node:crypto";
import type { JsonObject, JsonValue } from "./json.ts";
import { parseJsonText } from "@flowgate/gateway/json-text";
import { FlowgateError } from "./errors.ts";
import type { CredentialSets } from "./configuration.ts";
import { type FindTypes, acceptsMap, flattenMap } from "./credentials.ts";
import { findKeyViolation, quoteInput } from "./violation.ts";
import { isJsonObject } from "./json.ts";

/**
 * Decrypts Node-RED's `$` format with the secret that fits: the IV as 32 hex digits, followed by the base64 of AES-256-CTR over
 * `{"<node id>": {"<name>": "<value>"}}`, with `map` between id and name for `global-config` nodes. The key is the SHA-256 of the
 * secret. Throws `invalid_credentials` with a message that contains nothing of the input.
 */
export function decryptCredentials(
  secrets: readonly string[],
  encrypted: string,
  findTypes: FindTypes,
): CredentialSets {
  if (secrets.length === 0) {
    throw invalidCredentials(
      "can't be decrypted without a configured credentialSecret: configure the one that was used to encrypt them, or send credentials by node id",
    );
  }
  const decrypted = secrets.map((secret) => decryptJson(secret, encrypted)).filter((json) => json !== undefined);
  // A few bytes can be JSON by chance.
  const parsed = decrypted.find(isJsonObject) ?? decrypted[0];
  if (parsed === undefined) {
    // CTR is not authenticated: with a wrong secret the result is not valid JSON.
    throw invalidCredentials(
      "can't be decrypted with the configured credentialSecret: encrypt them with that secret, or send credentials by node id",
    );
  }
  const sets = isJsonObject(parsed) ? parseSets(parsed, findTypes(new Set(Object.keys(parsed)))) : undefined;
  if (sets === undefined) {
    throw invalidCredentials("must contain an object of objects of strings, by node id and name");
  }
  return sets;
}

/** Decrypts the `$` format without a check of the content. Returns undefined with a wrong secret, or for text in another format. */
export function decryptJson(secret: string, encrypted: string): JsonValue | undefined {
  return parseJson(decipher(secret, encrypted));
}

function decipher(secret: string, encrypted: string): Buffer | undefined {
  const [, iv, text] = /^([0-9a-f]{32})([A-Za-z0-9+/]+={0,2})$/i.exec(encrypted) ?? [];
  if (iv === undefined || text === undefined) {
    return undefined;
  }
  const cipher = createDecipheriv("aes-256-ctr", hash("sha256", secret, "buffer"), Buffer.from(iv, "hex"));
  return Buffer.concat([cipher.update(text, "base64"), cipher.final()]);
}

function parseJson(bytes: Buffer | undefined): JsonValue | undefined {
  if (bytes === undefined || !isUtf8(bytes)) {
    return undefined;
  }
  try {
    return parseJsonText(bytes.toString("utf8")) as JsonValue;
  } catch (error) {
    // A RangeError: it is nested too deep for the stack.
    if (error instanceof SyntaxError || error instanceof RangeError) {
      return undefined;
    }
    throw error;
  }
}

/** Undefined: it is not an object of objects. What nodes have that are not in the flows is not used, and may be anything. */
function parseSets(object: JsonObject, types: ReadonlyMap<string, string>): CredentialSets | undefined {
  const sets = new Map<string, ReadonlyMap<string, string>>();
  for (const [id, value] of Object.entries(object)) {
    const set = isJsonObject(value) ? unwrapMap(value, types.get(id)) : undefined;
    const [name] = Object.entries(set ?? {}).find(([, each]) => typeof each !== "string") ?? [];
    if (set !== undefined && name === undefined) {
      if (Object.keys(set).some((each) => findKeyViolation(each) !== undefined)) {
        throw invalidCredentials("contains a name that is not allowed, such as __proto__ or hasOwnProperty");
      }
      sets.set(id, new Map(Object.entries(set as { [name: string]: string })));
    } else if (types.has(id)) {
      if (name === undefined) {
        return undefined;
      }
      throw invalidCredentials(
        `the credential ${quoteInput(name)} of the node ${quoteInput(id)} must be text: flowgate import leaves it out, and says so`,
      );
    }
  }
  return sets;
}

/** Node-RED uses nothing but the `map` of a `global-config` node. */
function unwrapMap(set: JsonObject, type: string | undefined): JsonObject {
  const { map } = set;
  return flattenMap(map !== undefined && isJsonObject(map) && acceptsMap(type) ? map : set);
}

function invalidCredentials(message: string): FlowgateError {
  return new FlowgateError("invalid_credentials", `credentials.$: ${message}`);
}
