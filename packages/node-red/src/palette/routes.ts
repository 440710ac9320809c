import { createReadStream } from "node:fs";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { FlowgateError } from "@flowgate/flows/errors";
import { publicRoute, requires } from "../access.ts";
import { editorPolicy, imagePolicy } from "../content-security.ts";
import { NodeRedError } from "../errors.ts";
import { mediaTypeOf } from "../media-types.ts";
import { readLanguage } from "./catalogs.ts";
import type { Palette } from "./palette.ts";
import type { PaletteSet } from "./modules.ts";

const permitted = { config: requires("modules.read") };

/** The editor loads these by elements of its page, which send no token. */
const open = { config: publicRoute };

type Language = { Querystring: { readonly lng?: unknown } };

export type PathRequest = FastifyRequest<Language & { Params: { readonly "*": string } }>;

/**
 * The files of installed nodes that the editor loads, apart from `/nodes` itself. `defaultIcon` is the file that is shown for icons that do
 * not exist; undefined: nothing is.
 */
export function addPaletteRoutes(app: FastifyInstance, palette: Palette, defaultIcon: string | undefined): void {
  app.get("/icons", permitted, () => palette.icons());
  app.get<{ Params: { readonly "*": string } }>("/icons/*", open, async ({ params: { "*": path } }, reply) => {
    const [, module = "", name = ""] = /^((?:@[^/]+\/)?[^/]+)\/([^/]+)$/.exec(path) ?? [];
    return sendFile(reply, (await palette.findIcon(module, name)) ?? defaultIcon, imagePolicy);
  });
  app.get<{ Params: { readonly "*": string } }>("/resources/*", open, async ({ params: { "*": path } }, reply) => {
    const [, module = "", name = ""] = /^((?:@[^/]+\/)?[^/]+)\/(.+)$/s.exec(path) ?? [];
    return sendFile(reply, await palette.findResource(module, name), editorPolicy(undefined));
  });
  app.get<Language>("/nodes/messages", permitted, ({ query }) => palette.messages("node", languageOf(query)));
  app.get<Language>("/plugins/messages", permitted, ({ query }) => palette.messages("plugin", languageOf(query)));
  app.get("/plugins", permitted, async (request, reply) =>
    wantsJson(request)
      ? palette.list("plugin")
      : sendTemplates(reply, await palette.page("plugin", acceptedLanguage(request))),
  );
  app.get<{ Params: { readonly "*": string } } & Language>("/plugins/*", permitted, (request, reply) =>
    sendSet(palette, "plugin", request, reply),
  );
}

/** Answers what is below `/nodes` or `/plugins`: a module, one of its sets, or the messages of a set. */
export async function sendSet(
  palette: Palette,
  kind: PaletteSet["kind"],
  request: PathRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { "*": path } = request.params;
  const [, module = "", set, messages] = /^((?:@[^/]+\/)?[^/]+)(?:\/([^/]+)(\/messages)?)?$/.exec(path) ?? [];
  const id = `${module}/${set}`;
  if (messages !== undefined) {
    return palette.messagesOf(id, languageOf(request.query));
  }
  const found =
    set === undefined
      ? await palette.moduleInfo(module)
      : wantsJson(request)
        ? await palette.info(kind, id)
        : await palette.template(kind, id, acceptedLanguage(request));
  if (found === undefined) {
    throw new NodeRedError(404, "not_found", set === undefined ? "Module not found" : "Node not found");
  }
  return typeof found === "string" ? sendTemplates(reply, found) : found;
}

/** As Node-RED, which sends templates unless exactly this is asked for. */
export function wantsJson({ headers: { accept } }: FastifyRequest): boolean {
  return accept === "application/json";
}

/** The first language of Accept-Language. */
export function acceptedLanguage({ headers }: FastifyRequest): string {
  return readLanguage(headers["accept-language"]?.split(/[,;]/, 1)[0]?.trim());
}

export function sendTemplates(reply: FastifyReply, html: string): FastifyReply {
  return reply.type("text/html; charset=utf-8").send(html);
}

function languageOf({ lng }: Language["Querystring"]): string {
  return readLanguage(typeof lng === "string" ? lng : undefined);
}

/** As a stream: anyone can ask for it, and a module can have large files. */
function sendFile(reply: FastifyReply, path: string | undefined, policy: string): FastifyReply {
  if (path === undefined) {
    throw new FlowgateError("not_found", "no module has this file");
  }
  return reply
    .header("content-security-policy", policy)
    .header("cache-control", "no-cache")
    .type(mediaTypeOf(path))
    .send(createReadStream(path));
}
