import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { originOf, requires } from "./access.ts";
import { FlowgateError } from "../errors.ts";
import { isFields } from "../base/fields.ts";
import type { Palette } from "./palette/palette.ts";
import { peerKey } from "../auth/caller.ts";
import { type DocumentStore, documentsOfPage, maxDetailsBytes, type StoredDocument } from "../store/document-store.ts";

export type LibraryRoutesOptions = { readonly documents: DocumentStore; readonly palette: Palette };

type EntryRequest = FastifyRequest<{ Params: { library: string; type: string; "*"?: string } }>;

/** Of one entry. */
const bodyLimit = 1024 * 1024;
const maxPathChars = 255;

/** The libraries of Node-RED's editor: one in the store, whose entries all users share, and the example flows of modules. */
export function addLibraryRoutes(app: FastifyInstance, { documents, palette }: LibraryRoutesOptions): void {
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
    const { details, content } = readBody(type, request.body);
    const name = nameOf(type, path);
    const origin = originOf(request);
    const entry = { kind: "library_written", origin, subject: name.slice("library/".length) } as const;
    await documents.put({ name, details, content, by: origin.by }, entry);
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
function readBody(type: string, body: unknown): { readonly details: string; readonly content: string } {
  if (type === "flows") {
    return { details: "{}", content: JSON.stringify(body ?? null) };
  }
  if (!isFields(body) || Array.isArray(body) || typeof body["text"] !== "string") {
    throw new FlowgateError("invalid_argument", "the body must be an object with text");
  }
  const { text, fn: _, ...details } = body;
  const json = JSON.stringify(details);
  if (Buffer.byteLength(json) > maxDetailsBytes) {
    throw new FlowgateError(
      "payload_too_large",
      `the properties of an entry, apart from its text, may have at most ${maxDetailsBytes} bytes`,
    );
  }
  return { details: json, content: text };
}

async function findEntry(documents: DocumentStore, type: string, path: string): Promise<StoredDocument | undefined> {
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
async function* formatListing(documents: DocumentStore, { folder, folders, entries }: Folder): AsyncGenerator<string> {
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

/** As Node-RED names files. */
function nameOf(type: string, path: string): string {
  return `library/${type}/${type === "flows" && !path.endsWith(".json") ? `${path}.json` : path}`;
}

function notFound(): FlowgateError {
  return new FlowgateError("not_found", "the library has no such entry");
}

function parseEntry({ params: { library, type, "*": path = "" } }: EntryRequest) {
  if (library !== "local" && library !== "examples") {
    throw new FlowgateError("not_found", "there is no such library: there are local and examples");
  }
  const parts = path.replace(/\/$/, "").split("/");
  const isValid =
    /^[\w-]{1,64}$/.test(type) &&
    path.length <= maxPathChars &&
    (path === "" || parts.every((part) => part !== "" && part !== "." && part !== ".." && !/\p{C}/u.test(part)));
  if (!isValid) {
    throw new FlowgateError(
      "invalid_argument",
      `the type must be a word, and the path must have names separated by slashes, at most ${maxPathChars} characters`,
    );
  }
  return { isLocal: library === "local", type, path };
}
