import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { DeploymentErrorSchema, FlowsService } from "@flowgate/client";
import { tryDeploy } from "../e2e/deploy.ts";
import { send, type Sending, v2 } from "../e2e/rest.ts";
import type { DeploymentOutcome, ReadOutcome } from "./operation.ts";

/** The calls of a client to one replica. They reject if the outcome is unknown. */
export interface Api {
  /** Deploys flows that consist of a tab with this id; forced if `rev` is undefined. */
  deploy(id: string, rev: string | undefined): Promise<DeploymentOutcome>;
  read(known: string): Promise<ReadOutcome>;
}

export const apis = {
  REST: createRestApi,
  Connect: (baseUrl) => createRpcApi(createConnectTransport({ baseUrl, httpVersion: "1.1" })),
  gRPC: (baseUrl) => createRpcApi(createGrpcTransport({ baseUrl })),
} as const satisfies Record<string, (url: string) => Api>;

function createRestApi(url: string): Api {
  const service = { send: (method: string, path: string, sending?: Sending) => send(url, method, path, sending) };
  return {
    async deploy(id, rev) {
      const deployment = { flows: [{ id, type: "tab" }], ...(rev !== undefined && { rev }) };
      const reply = await tryDeploy(service, deployment, "nodes", { "service-deployment-message": id });
      if (reply.status === 409) {
        const { active } = reply.json() as { active: { rev: string } };
        return { kind: "mismatch", active: active.rev };
      }
      assertOk(reply);
      return { kind: "committed", rev: (reply.json() as { rev: string }).rev };
    },
    async read(known) {
      const reply = await service.send("GET", "/flows", { headers: { ...v2, "service-known-revision": known } });
      assertOk(reply);
      const { rev, flows } = reply.json() as { rev: string; flows: readonly { id: string }[] };
      return { kind: "read", rev, flowsOf: flows[0]?.id };
    },
  };
}

function assertOk({ status, body }: { readonly status: number; readonly body: string }): void {
  if (status !== 200) {
    throw new Error(`the response is ${status}: ${body}`);
  }
}

function createRpcApi(transport: Transport): Api {
  const client = createClient(FlowsService, transport);
  return {
    async deploy(id, rev) {
      const deployment = { flows: [{ id, type: "tab" }], message: id, ...(rev !== undefined && { rev }) };
      try {
        const { rev: made } = await client.setFlows(deployment);
        return { kind: "committed", rev: made };
      } catch (error) {
        const active = activeOf(error);
        if (active === undefined) {
          throw error;
        }
        return { kind: "mismatch", active };
      }
    },
    async read(known) {
      const { rev, flows } = await client.getFlows({}, { headers: { "service-known-revision": known } });
      return { kind: "read", rev, flowsOf: flows[0]?.id };
    },
  };
}

/** The active revision that a mismatch names; undefined for other errors. */
function activeOf(error: unknown): string | undefined {
  return error instanceof ConnectError && error.code === Code.Aborted
    ? error.findDetails(DeploymentErrorSchema)[0]?.active?.rev
    : undefined;
}
