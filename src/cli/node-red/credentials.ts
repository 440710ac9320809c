import { type JsonValue, create } from "@bufbuild/protobuf";
import { type Credentials, CredentialsSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { acceptsMap, flattenMap } from "../../flows/credentials.ts";
import { decryptJson } from "../../flows/encrypted.ts";
import { CliFailure } from "../failure.ts";

/** A secret that may have encrypted the credentials, and where it is from. */
export type Secret = { readonly value: string; readonly origin: string };

type ImportedCredentials = {
  readonly credentials: Credentials;
  /** What could not be imported, without values. */
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
  secrets: readonly Secret[],
  types: ReadonlyMap<string, string>,
): ImportedCredentials {
  const sets = isObject(content) && typeof content["$"] === "string" ? decrypt(file, content["$"], secrets) : content;
  if (!isObject(sets) || !Object.values(sets).every(isObject)) {
    throw new CliFailure(
      `${file}: must contain an object of objects, by node id and name: restore the file from a backup`,
    );
  }
  const notes: string[] = [];
  const nodes = Object.entries(sets as Record<string, Record<string, JsonValue>>).filter(([id]) => types.has(id));
  const toTexts = ([id, source]: [string, Record<string, JsonValue>]): [string, { values: Record<string, string> }] => {
    const { map } = source;
    const set = isObject(map) && acceptsMap(types.get(id)) ? flattenMap(map) : source;
    const texts = Object.entries(set).filter((entry): entry is [string, string] => typeof entry[1] === "string");
    for (const [name] of Object.entries(set).filter(([, value]) => typeof value !== "string")) {
      notes.push(
        `${file}: the credential ${JSON.stringify(name)} of the node ${JSON.stringify(id)} can't be imported, because it is not text: set it again`,
      );
    }
    return [id, { values: Object.fromEntries(texts.filter(([, value]) => value !== "")) }];
  };
  return { credentials: create(CredentialsSchema, { nodes: Object.fromEntries(nodes.map(toTexts)) }), notes };
}

function decrypt(file: string, encrypted: string, secrets: readonly Secret[]): JsonValue {
  for (const { value } of secrets) {
    const decrypted = decryptJson(value, encrypted);
    if (decrypted !== undefined) {
      return decrypted;
    }
  }
  throw new MissingSecretFailure(
    secrets.length === 0
      ? `${file}: is encrypted, and neither settings.js nor .config.runtime.json has the secret: specify it with --credential-secret-file`
      : `${file}: can't be decrypted with ${secrets.map(({ origin }) => origin).join(", nor with ")}: specify the secret that was the credentialSecret of Node-RED, or restore the file from a backup`,
  );
}

function isObject(value: unknown): value is Record<string, JsonValue> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
