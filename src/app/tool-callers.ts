import { type ContextValues, createContextValues } from "@connectrpc/connect";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Access, Caller } from "@flowgate/node-red";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf, type Peer, peerKey, principalKey } from "../auth/caller.ts";
import { insufficientScope } from "../auth/errors.ts";
import { createAccessCheck, type PermissionCheck } from "../auth/gate.ts";
import type { EditorSignIn } from "../auth/editor-sign-in.ts";
import type { OpenCalls } from "../auth/open-calls.ts";
import { allows } from "../auth/permissions.ts";
import type { ToolAuthenticator } from "../auth/tool-authenticator.ts";
import { countOf } from "../server/tools/access.ts";
import type { LimitRequest } from "../server/tools/request-limits.ts";
import type { Origin } from "../store/audit-store.ts";
import type { InProcessApi } from "./in-process-api.ts";

type ToolCallersOptions = {
  readonly tools: ToolAuthenticator;
  readonly openCalls: OpenCalls;
  readonly audit: AuditRecorder;
  readonly api: InProcessApi;
  readonly limit: LimitRequest;
  readonly signIn: EditorSignIn | undefined;
};

/** Authenticates the callers of Node-RED's admin API, who call the API of the service by it. */
export class ToolCallers {
  readonly #options: ToolCallersOptions;
  readonly #checks = new WeakMap<Access, PermissionCheck>();
  readonly #values = new WeakMap<object, ContextValues>();

  constructor(options: ToolCallersOptions) {
    this.#options = options;
  }

  /** Checks a request before its body is read. */
  async admit(request: FastifyRequest, reply: FastifyReply, access: Access): Promise<Caller> {
    const { tools, audit, limit } = this.#options;
    const { raw, headers } = request;
    // Node ignores all but the first one.
    if (countOf("authorization", raw) > 1) {
      throw new FlowgateError("invalid_argument", "Authorization: must be sent once");
    }
    const { url = "" } = raw;
    const { authorization = null } = headers;
    const peer = { address: request.ip, requestId: request.id, target: url, authorization };
    const values = createContextValues().set(peerKey, peer);
    const check = this.#checks.get(access) ?? createAccessCheck(tools, access, audit);
    this.#checks.set(access, check);
    await check({ url, requestHeader: new Headers(), values });
    await limit(request, reply, values, access.kind === "public");
    this.#values.set(raw, values);
    const disconnected = new AbortController();
    reply.raw.once("close", () => disconnected.abort(new FlowgateError("unavailable", "the client has disconnected")));
    return this.#create(values, disconnected.signal);
  }

  /** Authenticates the client of a websocket, which receives events. */
  async authenticate(client: Pick<Peer, "address" | "requestId">, authorization: string | null): Promise<Caller> {
    const { tools, audit } = this.#options;
    const principal = await tools.authenticate(authorization);
    const peer = { ...client, target: "", authorization };
    const values = createContextValues().set(peerKey, peer).set(principalKey, principal);
    if (!allows(principal.permissions, "events.read")) {
      audit.record({ kind: "permission_denied", origin: toOrigin(values), detail: "events.read" });
      throw insufficientScope("events.read", authorization !== null);
    }
    return this.#create(values);
  }

  /** The values of the caller of a request that was admitted. */
  valuesOf(request: object): ContextValues {
    return this.#values.get(request) ?? createContextValues();
  }

  #create(values: ContextValues, disconnected?: AbortSignal): Caller {
    const { openCalls, audit, api, signIn } = this.#options;
    const { username, permissions } = values.get(principalKey);
    return {
      username,
      permissions,
      api: api.transport(values, disconnected),
      onRevoked: (end) => openCalls.add({ values, requestHeader: new Headers() }, { permissions: [], end }),
      reserve: async (bytes) => values.get(peerKey).reserveDocument?.(bytes),
      injected: (nodeId) =>
        audit.record({ kind: "node_injected", origin: toOrigin(values), subject: nodeId.slice(0, 300) }),
      signOut: async (accessToken) => signIn?.end(accessToken, toOrigin(values)),
    };
  }
}

function toOrigin(values: ContextValues): Origin {
  return originOf({ values, protocolName: "http" });
}
