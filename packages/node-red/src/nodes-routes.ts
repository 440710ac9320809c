import { createClient } from "@connectrpc/connect";
import { isFields } from "@flowgate/base/fields";
import { ModulesService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { requires } from "./access.ts";
import { NodeRedError } from "./errors.ts";
import { findFile } from "./form-file.ts";
import type { Palette } from "./palette/palette.ts";
import { type PathRequest, acceptedLanguage, sendSet, sendTemplates, wantsJson } from "./palette/routes.ts";

const reads = { config: requires("modules.read") };
const writes = { config: requires("modules.write") };

/** The installed nodes, and the changes of their modules, which the API makes. `bodyBytes` limits uploaded packages. */
export function addNodesRoutes(app: FastifyInstance, palette: Palette, bodyBytes: number): void {
  const modulesOf = ({ caller }: FastifyRequest) => createClient(ModulesService, caller.api);

  app.get("/nodes", reads, async (request, reply) =>
    wantsJson(request)
      ? palette.list("node")
      : sendTemplates(reply, await palette.page("node", acceptedLanguage(request))),
  );
  app.get("/nodes/*", reads, (request, reply) => sendSet(palette, "node", request as PathRequest, reply));

  app.put("/nodes/*", writes, async (request, _reply) => {
    const { name, set } = parsePath(request as PathRequest);
    const { enabled } = isFields(request.body) ? request.body : {};
    if (typeof enabled !== "boolean") {
      throw new NodeRedError(400, "invalid_request", "enabled: must be true or false");
    }
    const find = () => (set === undefined ? palette.moduleInfo(name) : palette.info("node", `${name}/${set}`));
    if ((await find()) === undefined) {
      // Node-RED has this status where a change names what it does not have.
      throw new NodeRedError(400, "not_found", set === undefined ? "Module not found" : "Node not found");
    }
    await modulesOf(request).updateModule({ name, enabled, ...(set !== undefined && { set }) });
    return find();
  });

  app.delete("/nodes/*", writes, async (request, reply) => {
    const { name, set } = parsePath(request as PathRequest);
    if (set !== undefined) {
      throw new FlowgateError("invalid_argument", "only a whole module can be removed: leave out the name of the set");
    }
    if ((await palette.moduleInfo(name)) === undefined) {
      throw new NodeRedError(404, "not_found", "Module not found");
    }
    await modulesOf(request).deleteModule({ name });
    return reply.status(204).send();
  });

  app.register(async (installs) => {
    installs.addContentTypeParser("multipart/form-data", { parseAs: "buffer" }, (_request, body, parsed) =>
      parsed(null, body),
    );
    installs.post("/nodes", { ...writes, bodyLimit: bodyBytes }, async (request, _reply) => {
      const { body } = request;
      const input = body instanceof Buffer ? { tarball: readTarball(request, body) } : readPackage(body);
      if (!("tarball" in input)) {
        await assertNew(input);
      }
      const { module } = await modulesOf(request).installModule(input);
      const { name = "", version = "" } = module ?? {};
      // A package without nodes is for function nodes.
      return (await palette.moduleInfo(name)) ?? { name, version, local: true, user: true, nodes: [] };
    });
  });

  async function assertNew({ name, version }: PackageRequest): Promise<void> {
    const existing = (await palette.list("node")).find(({ module }) => module === name);
    if (existing !== undefined && (version === "" || version === existing.version)) {
      throw new NodeRedError(400, "module_already_loaded", "Module already loaded");
    }
  }
}

type PackageRequest = { readonly name: string; readonly version: string };

function readPackage(body: unknown): PackageRequest {
  const { module: name, version = "", url } = isFields(body) ? body : {};
  if (url !== undefined && url !== null) {
    throw new FlowgateError(
      "invalid_argument",
      "url: modules are installed from the registry, or from an uploaded tarball",
    );
  }
  if (typeof name !== "string" || typeof version !== "string") {
    throw new NodeRedError(
      400,
      "invalid_request",
      "module: must be the name of an npm package, with a version or without",
    );
  }
  return { name, version };
}

/** The file in the field `tarball` of a form. */
function readTarball({ headers }: FastifyRequest, form: Buffer): Uint8Array {
  const tarball = findFile(form, headers["content-type"] ?? "", "tarball");
  if (tarball === undefined) {
    throw new FlowgateError("invalid_argument", "the form must have a file, in the field tarball");
  }
  return tarball;
}

/** The name of a module, which may have a scope, and that of a set of its nodes. */
function parsePath({ params: { "*": path } }: PathRequest): {
  readonly name: string;
  readonly set: string | undefined;
} {
  const [, name = "", set] = /^((?:@[^/]+\/)?[^/]+)(?:\/([^/]+))?$/.exec(path) ?? [];
  if (name === "") {
    throw new FlowgateError("not_found", "there is no such module");
  }
  return { name, set };
}
