// Loaded when the first page is requested.
import { Readable } from "node:stream";
import fastifyStatic from "@fastify/static";
import type { GatewayResponse } from "@flowgate/gateway";
import { fastify, type FastifyReply, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { errorResponse } from "../http/error-response.ts";
import { internalMessage } from "../pipeline/errors.ts";
import type { RequestContext } from "../pipeline/request-context.ts";
import { addConsole, consolePrefix } from "./console.ts";
import { addDocs } from "./docs.ts";
import { contextOf, forward } from "./forward.ts";
import { sendError } from "./html-page.ts";
import { addSignIn, type SignInPages } from "./sign-in.ts";

export type PageOptions = {
  readonly console: string | undefined;
  readonly docs: boolean;
  /** Absent: browsers can't sign in. */
  readonly signIn: SignInPages | undefined;
  readonly log: Logger;
};

export type ServePage = (request: RequestContext) => Promise<GatewayResponse>;

/**
 * The pages, as a Fastify app without a port: the pipeline passes it the requests, which have passed all guards.
 *
 * `/` redirects to the console or the documentation: relatively, so that it also works below a path prefix of a proxy, and temporarily,
 * since a service configured without them has nothing at `/`.
 */
export async function createPageApp({ console, docs, signIn, log }: PageOptions): Promise<ServePage> {
  const app = fastify();
  app.removeAllContentTypeParsers();
  app.setNotFoundHandler((_, reply) => sendError(reply, errorResponse(404, "there is no such page")));
  app.setErrorHandler((error, request, reply) => {
    const { requestId } = contextOf(request);
    const { statusCode = 500 } = error as { statusCode?: number };
    // A folder, or a path with empty or relative segments.
    if (statusCode === 403) {
      return sendError(reply, errorResponse(404, "there is no such file"));
    }
    if (statusCode < 500) {
      return sendError(reply, errorResponse(statusCode, "the request is invalid for a page"));
    }
    log.error({ requestId, err: error }, "a page failed unexpectedly");
    return sendError(reply, errorResponse(500, internalMessage(requestId)));
  });
  app.addHook("onSend", async (request, reply, payload) =>
    isKnown(request, reply) ? omitBody(reply, payload) : payload,
  );
  await app.register(fastifyStatic, { serve: false, etag: false, lastModified: false, cacheControl: false });
  app.get("/", (_, reply) => reply.redirect(console === undefined ? "docs" : "console"));
  if (console !== undefined) {
    await app.register((scope) => addConsole(scope, console), { prefix: consolePrefix });
  }
  if (docs) {
    await app.register((scope) => addDocs(scope, { canSignIn: () => signIn?.signIn.isPossible === true }));
  }
  if (signIn !== undefined) {
    await app.register((scope) => addSignIn(scope, signIn));
  }
  await app.ready();
  return (request) => forward(app, request);
}

/** True if the client has this version of a file, by weak comparison with If-None-Match (RFC 9110, section 13.1.2). */
function isKnown({ headers }: FastifyRequest, reply: FastifyReply): boolean {
  const known = headers["if-none-match"];
  const etag = reply.getHeader("etag");
  const isFile = reply.statusCode === 200 && typeof etag === "string";
  return isFile && known !== undefined && (known.trim() === "*" || known.includes(etag.replace(/^W\//, "")));
}

function omitBody(reply: FastifyReply, payload: unknown): null {
  if (payload instanceof Readable) {
    payload.destroy();
  }
  reply.status(304).removeHeader("content-type").removeHeader("content-length");
  return null;
}
