import type { FileRegistry } from "@bufbuild/protobuf";
import { timestampFromMs, type FieldMask, type Timestamp } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createNodeHandler } from "../../../src/adapters/node/index.ts";
import { presets } from "../../../src/index.ts";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { compileFiles } from "../googleapis/compile-protos.ts";

/** A server of two of Google's APIs, with the preset for their clients. */
export type GoogleServer = AsyncDisposable & {
  readonly port: number;
  /** Method, path, and the parameters of the query that the clients sent. */
  readonly requests: string[];
};

export async function openGoogleServer(): Promise<GoogleServer> {
  const types = compileFiles(["google/cloud/secretmanager/v1", "google/firestore/v1"]);
  const requests: string[] = [];
  const handle = createNodeHandler({
    ...presets.google,
    routes: (router) => {
      serveSecrets(router, types);
      serveDocuments(router, types);
    },
  });
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${decodeURIComponent(request.url ?? "")}`);
    handle(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

type Fields = Record<string, unknown>;
/** The types of the messages are known at run time only. */
type Implementation = (request: never) => Fields | AsyncIterable<Fields>;

/** Registers some methods of a service; their responses are initializers of messages. */
function register(
  router: ConnectRouter,
  types: FileRegistry,
  name: string,
  implementations: Readonly<Record<string, Implementation>>,
): void {
  const service = types.getService(name);
  if (service === undefined) {
    throw new Error(`there is no service ${name}`);
  }
  router.service(service, implementations as never);
}

/** An error as Google's APIs have them. */
function failure(code: Code, message: string, reason: string, metadata: Record<string, string> = {}): ConnectError {
  const value = { reason, domain: "secrets.example", metadata };
  return new ConnectError(message, code, undefined, [{ desc: ErrorInfoSchema, value }]);
}

type Named = { readonly name: string };

type Secret = {
  readonly name: string;
  readonly labels: Record<string, string>;
  readonly versionAliases: Record<string, bigint>;
  readonly etag: string;
  readonly createTime: Timestamp;
};

const ENABLED = 1;
const DISABLED = 2;

function serveSecrets(router: ConnectRouter, types: FileRegistry): void {
  const secrets = new Map<string, Secret>();
  const versions = new Map<string, { readonly name: string; readonly payload: Fields; readonly state: number }>();
  const find = (name: string): Secret => {
    if (!name.startsWith("projects/p/")) {
      throw failure(Code.PermissionDenied, "not your project", "IAM_PERMISSION_DENIED");
    }
    const secret = secrets.get(name);
    if (secret === undefined) {
      throw failure(Code.NotFound, `there is no secret ${name}`, "SECRET_NOT_FOUND", { name });
    }
    return secret;
  };
  register(router, types, "google.cloud.secretmanager.v1.SecretManagerService", {
    createSecret({ parent, secretId, secret }: { parent: string; secretId: string; secret: Secret }) {
      const name = `${parent}/secrets/${secretId}`;
      if (secrets.has(name)) {
        throw failure(Code.AlreadyExists, `there is a secret ${name} already`, "SECRET_EXISTS");
      }
      const stored = { ...secret, name, createTime: timestampFromMs(Date.UTC(2020)) };
      secrets.set(name, stored);
      return stored;
    },
    listSecrets({ pageSize, pageToken }: { pageSize: number; pageToken: string }) {
      const start = Number(pageToken);
      if (Number.isNaN(start)) {
        throw failure(Code.InvalidArgument, "page_token: is invalid", "INVALID_PAGE_TOKEN", { field: "page_token" });
      }
      const all = [...secrets.values()];
      const end = start + pageSize;
      return { secrets: all.slice(start, end), nextPageToken: end < all.length ? String(end) : "" };
    },
    getSecret: ({ name }: Named) => find(name),
    updateSecret({ secret, updateMask }: { secret: Secret; updateMask: FieldMask }) {
      const isChanged = (path: string): boolean => updateMask.paths.includes(path);
      const stored = {
        ...find(secret.name),
        ...(isChanged("labels") && { labels: secret.labels }),
        ...(isChanged("version_aliases") && { versionAliases: secret.versionAliases }),
        ...(isChanged("etag") && { etag: secret.etag }),
      };
      secrets.set(stored.name, stored);
      return stored;
    },
    deleteSecret({ name }: Named) {
      secrets.delete(find(name).name);
      return {};
    },
    addSecretVersion({ parent, payload }: { parent: string; payload: Fields }) {
      const version = { name: `${find(parent).name}/versions/1`, payload, state: ENABLED };
      versions.set(version.name, version);
      return { name: version.name, state: version.state };
    },
    accessSecretVersion({ name }: Named) {
      const version = versions.get(name);
      if (version?.state !== ENABLED) {
        throw failure(Code.FailedPrecondition, "the version is disabled", "VERSION_DISABLED");
      }
      return { name, payload: version.payload };
    },
    disableSecretVersion({ name }: Named) {
      versions.set(name, { name, payload: {}, state: DISABLED });
      return { name, state: DISABLED };
    },
  });
}

function serveDocuments(router: ConnectRouter, types: FileRegistry): void {
  const book = (parent: string, number: number) => ({
    name: `${parent}/books/${number}`,
    fields: { pages: { valueType: { case: "integerValue", value: BigInt(number) * 2n ** 60n } } },
  });
  register(router, types, "google.firestore.v1.Firestore", {
    async *runQuery({ parent, queryType }: { parent: string; queryType: { value: { limit: number } } }) {
      if (parent.includes("/none/")) {
        throw failure(Code.NotFound, "there is no such database", "DATABASE_NOT_FOUND");
      }
      for (let number = 1; number <= queryType.value.limit; number++) {
        yield { document: book(parent, number), skippedResults: number };
      }
      if (parent.includes("/broken/")) {
        throw failure(Code.DataLoss, "the database is broken", "DATABASE_BROKEN");
      }
    },
    listDocuments: ({ parent, collectionId }: { parent: string; collectionId: string }) => ({
      documents: [1, 2].map((number) => ({ name: `${parent}/${collectionId}/${number}` })),
    }),
  });
}
