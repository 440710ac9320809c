import type { DescMethod } from "@bufbuild/protobuf";
import { FlowsService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { requires } from "./access.ts";
import { addAuthRoutes } from "./auth-routes.ts";
import { messageHeader } from "./editor/deploy-message.ts";
import type { Host } from "./host.ts";

export type ApiRoutesOptions = { readonly host: Pick<Host, "serveApi" | "signIn">; readonly bodyBytes: number };

/** The header fields of Node-RED, and those of the API that have the same values. */
const renamedHeaders: Readonly<Record<string, string>> = {
  "node-red-api-version": "service-api-version",
  "node-red-deployment-type": "service-deployment-type",
};

/** The message of a deployment in UTF-8, as Node.js would have read it from a header field: in ISO 8859-1. */
function decodeMessage(encoded: string): string {
  try {
    const message = decodeURIComponent(encoded);
    if (!/[\0\r\n]/.test(message)) {
      return Buffer.from(message).toString("latin1");
    }
  } catch {
    // The same error.
  }
  throw new FlowgateError("invalid_argument", `${messageHeader}: must be percent-encoded UTF-8`);
}

/** The paths that the API has too, with the same bodies and status codes: tokens and flows. The service answers them, with all of its checks. */
export function addApiRoutes(app: FastifyInstance, { host, bodyBytes: bodyLimit }: ApiRoutesOptions): void {
  const { getFlows, setFlows, getFlow, createFlow, updateFlow, deleteFlow } = FlowsService.method;
  const serve = (request: FastifyRequest, reply: FastifyReply): void => {
    const { raw } = request;
    for (const [name, own] of Object.entries(renamedHeaders)) {
      const value = raw.headers[name];
      if (value !== undefined) {
        raw.headers[own] = value;
      }
    }
    const message = raw.headers[messageHeader];
    if (typeof message === "string") {
      raw.headers["service-deployment-message"] = decodeMessage(message);
    }
    // jQuery adds `?_=…` to requests that are not to be cached.
    raw.url = raw.url?.replace(/\?.*$/, "") ?? "";
    reply.hijack();
    host.serveApi(request, reply);
  };

  app.register(async (api) => {
    // Bodies stay unread until the service has accepted the call.
    api.removeAllContentTypeParsers();
    api.addContentTypeParser(/^/, (_request, _payload, parsed) => parsed(null));
    addAuthRoutes(api, serve, host.signIn);
    const reads = (rpc: DescMethod) => ({ config: { ...requires("flows.read"), rpc } });
    const writes = (rpc: DescMethod) => ({ config: { ...requires("flows.write"), rpc }, bodyLimit });
    api.get("/flows", reads(getFlows), serve);
    api.post("/flows", writes(setFlows), serve);
    api.post("/flow", writes(createFlow), serve);
    api.get("/flow/:id", reads(getFlow), serve);
    api.put("/flow/:id", writes(updateFlow), serve);
    api.delete("/flow/:id", writes(deleteFlow), serve);
  });
}
