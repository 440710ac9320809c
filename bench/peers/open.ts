import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openFolder, openServer, type Server } from "../server.ts";

export type StaticResponse = { readonly bytes: Uint8Array; readonly contentType: string; readonly etag?: string };

/** Starts a bare Fastify route that returns these bytes for any GET. */
export function openFastifyGet(response: StaticResponse): Promise<Server> {
  return openStatic("fastify.ts", response);
}

/** Starts a raw `node:http` server that returns these bytes, or 304 for their entity tag. */
export function openRawHttp(response: StaticResponse): Promise<Server> {
  return openStatic("raw-http.ts", response);
}

/** Starts another program of this directory. */
export function openPeer(entry: string, ...args: string[]): Promise<Server> {
  return openServer(new URL(entry, import.meta.url), args);
}

/** Starts Node-RED with its own admin API. */
export async function openNodeRed(): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openFolder());
  const server = stack.use(await openPeer("node-red.ts", path));
  const all = stack.move();
  return { ...server, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

async function openStatic(entry: string, { bytes, contentType, etag = "" }: StaticResponse): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const file = join(stack.use(await openFolder()).path, "body");
  await writeFile(file, bytes);
  const server = stack.use(await openPeer(entry, file, contentType, etag));
  const all = stack.move();
  return { ...server, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
