import type { DescMethod, Message } from "@bufbuild/protobuf";
import { type ConnectRouter, createContextKey, createContextValues, type HandlerContext } from "@connectrpc/connect";
import type { GatewayOptions } from "@flowgate/gateway";
import { createNodeHandler, type NodeRequest } from "@flowgate/gateway/node";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { requires } from "../../../src/server/tools/access.ts";
import { messageHeader } from "./editor/deploy-message.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { addAuthRoutes, type AuthRoutesOptions } from "./auth-routes.ts";
import type { ServiceCalls } from "../../../src/app/service-calls.ts";
import { authService, type LoginAuthenticator } from "../../../src/services/auth.ts";

export type ApiRoutesOptions = Pick<AuthRoutesOptions, "signIn"> & {
  readonly authenticator: LoginAuthenticator & { readonly issuesTokens: boolean };
  readonly calls: ServiceCalls;
  /** The options of the API's own gateway, with the gate of this listener. */
  readonly gateway: Omit<GatewayOptions, "routes">;
};

/** The header fields of Node-RED, and those of the API that have the same values. */
const renamedHeaders: Readonly<Record<string, string>> = {
  "node-red-api-version": "service-api-version",
  "node-red-deployment-type": "service-deployment-type",
};

/** The message of a deployment, which a header field of the API can have in ASCII only. */
const messageKey = createContextKey("", { description: "message of a deployment" });

type Implementation = (request: Message & { message?: string }, context: HandlerContext) => unknown;

function withMessage(method: DescMethod, implementation: Implementation): Implementation {
  return (request, context) => {
    const message = context.values.get(messageKey);
    if (message !== "" && method.input.field["message"] !== undefined) {
      request.message = message;
    }
    return implementation(request, context);
  };
}

function decodeMessage(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new FlowgateError("invalid_argument", `${messageHeader}: must be percent-encoded UTF-8`);
  }
}

/**
 * The paths that the API has too, with the same bodies and status codes: tokens, and flows. They are served by a gateway of the same
 * implementations, so that deployments pass the same checks, limits and threads.
 */
export function addApiRoutes(app: FastifyInstance, { authenticator, calls, gateway, signIn }: ApiRoutesOptions): void {
  const { getFlows, setFlows, getFlow, createFlow, updateFlow, deleteFlow } = FlowsService.method;
  // The gateway reads the bodies, and limits them.
  const bodyLimit = gateway.readMaxBytes ?? Number.MAX_SAFE_INTEGER;
  const values = new WeakMap<NodeRequest, FastifyRequest["values"]>();
  const handle = createNodeHandler({
    ...gateway,
    protocols: ["rest"],
    routes(router: ConnectRouter) {
      router.service(AuthService, authService(authenticator));
      for (const { method, impl } of calls.specsOf([getFlows, setFlows, getFlow, createFlow, updateFlow, deleteFlow])) {
        router.rpc(method as typeof getFlows, withMessage(method, impl as Implementation) as never);
      }
    },
    contextValues: (request) => values.get(request) ?? createContextValues(),
  });

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
      request.values.set(messageKey, decodeMessage(message));
    }
    // jQuery adds `?_=…` to requests that are not to be cached.
    raw.url = raw.url?.replace(/\?.*$/, "") ?? "";
    values.set(raw, request.values);
    reply.hijack();
    handle(raw, reply.raw);
  };

  app.register(async (api) => {
    // Bodies stay unread until the gate of the gateway has accepted the call.
    api.removeAllContentTypeParsers();
    api.addContentTypeParser(/^/, (_request, _payload, parsed) => parsed(null));
    addAuthRoutes(api, serve, { signIn, takesPasswords: () => authenticator.issuesTokens });
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
