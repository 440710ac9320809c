import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { JsonObject } from "@bufbuild/protobuf";
import { LibraryService } from "../../../gen/flowgate/v1/library_pb.ts";
import { requires } from "../../../src/server/tools/access.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { isFields } from "@flowgate/base/fields";
import type { Palette } from "./palette/palette.ts";
import { peerKey } from "../../../src/auth/caller.ts";
import { assertEntry, nameOf } from "../../../src/services/library.ts";
import type { ServiceCalls } from "../../../src/app/service-calls.ts";
import { type DocumentStore, documentsOfPage, maxDetailsBytes, type StoredDocument } from "../../../src/store/document-store.ts";

export type LibraryRoutesOptions = {
  readonly documents: Pick<DocumentStore, "find" | "list" | "listFolders">;
  readonly palette: Palette;
  readonly calls: ServiceCalls;
};

type EntryRequest = FastifyRequest<{ Params: { library: string; type: string; "*"?: string } }>;

/** Of one entry. */
const bodyLimit = 1024 * 1024;

/** The libraries of Node-RED's editor: one in the store, whose entries all users share, and the example flows of modules. */
export function addLibraryRoutes(app: FastifyInstance, { documents, palette, calls }: LibraryRoutesOptions): void {
  const read = async (request: EntryRequest, reply: FastifyReply): Promise<unknown> => {
    const { isLocal, type, path } = parseEntry(request);
    if (!isLocal) {
      return type === "flows" ? readExamples(palette, path, reply) : [];
    }
    const document = path === "" ? undefined : await findEntry(documents, type, path);
    if (document !== undefined) {
      reply.type(type === "flows" ? "application/json" : "text/plain");
      return document.content;
    }
    const folder = prefixOf(type, path);
    // Clients that read slowly keep a page in memory.
    await request.values.get(peerKey).reserveDocument?.(maxDetailsBytes * documentsOfPage);
    const [folders, entries] = await Promise.all([documents.listFolders(folder), documents.list(folder)]);
    if (folders.length + entries.length === 0 && path !== "" && !path.endsWith("/")) {
      throw notFound();
    }
    const listing = Readable.from(formatListing(documents, { folder, folders, entries }), { objectMode: false });
    return reply.type("application/json; charset=utf-8").send(listing);
  };
  app.get("/library/:library/:type", { config: requires("library.read") }, (request, reply) =>
    read(request as EntryRequest, reply),
  );
  app.get("/library/:library/:type/*", { config: requires("library.read") }, (request, reply) =>
    read(request as EntryRequest, reply),
  );
  app.post("/library/:library/:type/*", { config: requires("library.write"), bodyLimit }, async (request, reply) => {
    const { isLocal, type, path } = parseEntry(request as EntryRequest);
    if (!isLocal || path === "" || path.endsWith("/")) {
      throw new FlowgateError(
        "invalid_argument",
        "an entry of the library local must be named, such as /library/local/functions/greet",
      );
    }
    const content = readBody(type, request.body);
    await calls.call(LibraryService.method.setLibraryEntry, { type, path, content }, request, reply);
    return reply.status(204).send();
  });
}

/** The names of modules, of what a folder contains, or an example itself. */
async function readExamples(palette: Palette, path: string, reply: FastifyReply): Promise<unknown> {
  if (path === "") {
    return palette.modulesWithExamples();
  }
  const [, module = "", rest = ""] = /^((?:@[^/]+\/)?[^/]+)\/?(.*)$/s.exec(path) ?? [];
  const found = await palette.findExample(module, rest.replace(/\/$/, ""));
  if (found === undefined) {
    throw notFound();
  }
  return typeof found === "string"
    ? reply.type("application/json").send(found)
    : [...found.folders, ...found.examples.map((fn) => ({ fn }))];
}

/** Of a function, the body has its text and other properties. Flows are the body itself. */
function readBody(type: string, body: unknown): { readonly text: string; readonly details?: JsonObject } {
  if (type === "flows") {
    return { text: JSON.stringify(body ?? null) };
  }
  if (!isFields(body) || Array.isArray(body) || typeof body["text"] !== "string") {
    throw new FlowgateError("invalid_argument", "the body must be an object with text");
  }
  const { text, ...details } = body;
  return { text, details: details as JsonObject };
}

async function findEntry(
  documents: LibraryRoutesOptions["documents"],
  type: string,
  path: string,
): Promise<StoredDocument | undefined> {
  return (
    (await documents.find(`library/${type}/${path}`)) ??
    (type === "flows" ? documents.find(nameOf(type, path)) : undefined)
  );
}

type Folder = {
  readonly folder: string;
  readonly folders: readonly string[];
  readonly entries: Awaited<ReturnType<DocumentStore["list"]>>;
};

/** The names of folders, and then the entries, with their properties, as JSON. Entries are read while the client does. */
async function* formatListing(
  documents: LibraryRoutesOptions["documents"],
  { folder, folders, entries }: Folder,
): AsyncGenerator<string> {
  const names = folders.map((name) => JSON.stringify(name)).join();
  yield `[${names}`;
  let separator = names === "" ? "" : ",";
  for (let page = entries; page.length > 0; page = await documents.list(folder, page.at(-1)?.name)) {
    yield separator + page.map(({ name, details }) => formatEntry(details, name.slice(folder.length))).join();
    separator = ",";
    // Stores can answer at once.
    await setImmediate();
  }
  yield "]";
}

/** Adds the name to the properties, which are an object without one. */
function formatEntry(details: string, fn: string): string {
  return `${details.slice(0, -1)}${details === "{}" ? "" : ","}"fn":${JSON.stringify(fn)}}`;
}

function prefixOf(type: string, path: string): string {
  return path === "" ? `library/${type}/` : `library/${type}/${path.replace(/\/$/, "")}/`;
}

function notFound(): FlowgateError {
  return new FlowgateError("not_found", "the library has no such entry");
}

function parseEntry({ params: { library, type, "*": path = "" } }: EntryRequest) {
  if (library !== "local" && library !== "examples") {
    throw new FlowgateError("not_found", "there is no such library: there are local and examples");
  }
  assertEntry(type, path);
  return { isLocal: library === "local", type, path };
}
