import { type JsonObject, type JsonValue, create } from "@bufbuild/protobuf";
import { type Credentials, CredentialsSchema } from "@flowgate/client";
import { acceptsMap, flattenMap, findKeyViolation, findTextViolation } from "@flowgate/flows";
import { decryptJson } from "@flowgate/flows/encrypted";
import { CliFailure } from "../failure.ts";

/** A secret that may have encrypted the credentials, and where it is from. */
export type Secret = { readonly value: string; readonly origin: string };

/** Those that are known, and why there is none. */
export type Secrets = { readonly found: readonly Secret[]; readonly missing: string };

type ImportedCredentials = {
  readonly credentials: Credentials;
  /** The credentials that could not be imported, without values. */
  readonly notes: readonly string[];
};

/** No secret that is known decrypts the credentials. */
export class MissingSecretFailure extends CliFailure {}

/**
 * Reads the content of a credentials file of Node-RED, in clear text or encrypted, for nodes with these types by id. Throws a
 * CliFailure if no secret decrypts it. Its message contains nothing of the file.
 */
export function readCredentials(
  file: string,
  content: unknown,
  secrets: Secrets,
  types: ReadonlyMap<string, string>,
): ImportedCredentials {
  const sets = isObject(content) && typeof content["$"] === "string" ? decrypt(file, content["$"], secrets) : content;
  if (!isObject(sets)) {
    throw new CliFailure(
      `${file}: must contain an object of objects, by node id and name: restore the file from a backup`,
    );
  }
  const notes: string[] = [];
  const nodes: Record<string, { values: Record<string, string> }> = {};
  for (const [id, source] of Object.entries(sets).filter(([id]) => types.has(id))) {
    const node = `of the node ${JSON.stringify(id)}`;
    if (!isObject(source)) {
      notes.push(`${file}: the credentials ${node} can't be imported, because they are no object: set them again`);
      continue;
    }
    const { map } = source;
    const values: Record<string, string> = {};
    for (const [name, value] of Object.entries(flattenMap(isObject(map) && acceptsMap(types.get(id)) ? map : source))) {
      const problem = findProblem(name, value);
      if (problem !== undefined) {
        const text = `the credential ${JSON.stringify(name)} ${node} can't be imported, because ${problem}: set it again`;
        notes.push(`${file}: ${text}`);
      } else if (value !== "") {
        values[name] = value as string;
      }
    }
    nodes[id] = { values };
  }
  return { credentials: create(CredentialsSchema, { nodes }), notes };
}

function findProblem(name: string, value: JsonValue): string | undefined {
  if (findKeyViolation(name) !== undefined) {
    return "no credential can have this name";
  }
  if (typeof value !== "string") {
    return "it is not text";
  }
  return findTextViolation(value) === undefined ? undefined : "it is not valid Unicode";
}

function decrypt(file: string, encrypted: string, { found, missing }: Secrets): JsonValue {
  for (const { value } of found) {
    const decrypted = decryptJson(value, encrypted);
    if (decrypted !== undefined) {
      return decrypted;
    }
  }
  throw new MissingSecretFailure(
    found.length === 0
      ? `${file}: is encrypted, and ${missing}: specify it with --credential-secret-file`
      : `${file}: can't be decrypted with ${found.map(({ origin }) => origin).join(", nor with ")}: specify the secret that was the credentialSecret of Node-RED, or restore the file from a backup`,
  );
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
