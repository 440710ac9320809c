import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { LibraryService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { requires } from "./access.ts";
import type { Library, LibraryEntry } from "./host.ts";
import { isObject } from "./merge-fields.ts";
import type { Palette } from "./palette/palette.ts";

type EntryRequest = FastifyRequest<{ Params: { library: string; type: string; "*"?: string } }>;

/** Of one entry. */
const bodyLimit = 1024 * 1024;

/** Of a page of entries. */
const pageBytes = 1024 * 1024;

/** The libraries of Node-RED's editor: one in the store, whose entries all users share, and the example flows of modules. */
export function addLibraryRoutes(app: FastifyInstance, library: Library, palette: Palette): void {
  const read = async (request: EntryRequest, reply: FastifyReply): Promise<unknown> => {
    const { isLocal, type, path } = parseEntry(request);
    if (!isLocal) {
      return type === "flows" ? readExamples(palette, path, reply) : [];
    }
    const content = path === "" ? undefined : await library.find(type, path);
    if (content !== undefined) {
      return reply.type(type === "flows" ? "application/json" : "text/plain").send(content);
    }
    // Clients that read slowly keep a page in memory.
    await request.caller.reserve(pageBytes);
    const [folders, entries] = await Promise.all([library.folders(type, path), library.entries(type, path)]);
    if (folders.length + entries.length === 0 && path !== "" && !path.endsWith("/")) {
      throw notFound();
    }
    const next = (after: string | undefined) => library.entries(type, path, after);
    const listing = Readable.from(formatListing(folders, entries, next), { objectMode: false });
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
    await createClient(LibraryService, request.caller.api).setLibraryEntry({ type, path, content });
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
  if (!isObject(body) || typeof body["text"] !== "string") {
    throw new FlowgateError("invalid_argument", "the body must be an object with text");
  }
  const { text, ...details } = body;
  return { text, details: details as JsonObject };
}

/** The names of folders, and then the entries, with their properties, as JSON. Entries are read while the client does. */
async function* formatListing(
  folders: readonly string[],
  entries: readonly LibraryEntry[],
  next: (after: string | undefined) => Promise<readonly LibraryEntry[]>,
): AsyncGenerator<string> {
  const names = folders.map((name) => JSON.stringify(name)).join();
  yield `[${names}`;
  let separator = names === "" ? "" : ",";
  for (let page = entries; page.length > 0; page = await next(page.at(-1)?.name)) {
    yield separator + page.map(formatEntry).join();
    separator = ",";
    // Stores can answer at once.
    await setImmediate();
  }
  yield "]";
}

/** Adds the name to the properties, which are an object without one. */
function formatEntry({ name, details }: LibraryEntry): string {
  return `${details.slice(0, -1)}${details === "{}" ? "" : ","}"fn":${JSON.stringify(name)}}`;
}

function notFound(): FlowgateError {
  return new FlowgateError("not_found", "the library has no such entry");
}

function parseEntry({ params: { library, type, "*": path = "" } }: EntryRequest) {
  if (library !== "local" && library !== "examples") {
    throw new FlowgateError("not_found", "there is no such library: there are local and examples");
  }
  return { isLocal: library === "local", type, path };
}
