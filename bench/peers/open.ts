import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openFolder, openServer, type Server } from "../server.ts";

export type StaticAnswer = { readonly bytes: Uint8Array; readonly contentType: string; readonly etag?: string };

/** A bare Fastify route that answers these bytes to any GET. */
export function openFastifyGet(answer: StaticAnswer): Promise<Server> {
  return openStatic("fastify.ts", answer);
}

/** A raw `node:http` server that answers these bytes, or 304 to their entity tag. */
export function openRawHttp(answer: StaticAnswer): Promise<Server> {
  return openStatic("raw-http.ts", answer);
}

/** Another file of this folder. */
export function openPeer(entry: string, ...args: string[]): Promise<Server> {
  return openServer(new URL(entry, import.meta.url), args);
}

/** Node-RED with its own admin API. */
export async function openNodeRed(): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openFolder());
  const server = stack.use(await openPeer("node-red.ts", path));
  const all = stack.move();
  return { ...server, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

async function openStatic(entry: string, { bytes, contentType, etag = "" }: StaticAnswer): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const file = join(stack.use(await openFolder()).path, "body");
  await writeFile(file, bytes);
  const server = stack.use(await openPeer(entry, file, contentType, etag));
  const all = stack.move();
  return { ...server, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
