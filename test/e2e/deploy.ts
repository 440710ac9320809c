import type { Node } from "./flow-builders.ts";
import { json, type Reply, v2 } from "./rest.ts";
import type { Service } from "./service.ts";

export type Deployment = {
  readonly flows: readonly Node[];
  readonly rev?: string;
  readonly credentials?: object;
  readonly modules?: readonly object[];
};

/** Deploys over REST v2, and returns any response. */
export function tryDeploy(
  service: Pick<Service, "send">,
  deployment: Deployment,
  type = "full",
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  return service.send("POST", "/flows", {
    headers: { ...json, ...v2, "service-deployment-type": type, ...headers },
    body: JSON.stringify(deployment),
  });
}

/** The same; throws if the deployment is rejected. */
export async function deploy(...parameters: Parameters<typeof tryDeploy>): Promise<string> {
  const reply = await tryDeploy(...parameters);
  if (reply.status !== 200) {
    throw new Error(`the deployment was answered ${reply.status}: ${reply.body}`);
  }
  return (reply.json() as { rev: string }).rev;
}

export async function readRuntime(service: Service, headers: Readonly<Record<string, string>> = {}) {
  const reply = await service.send("GET", "/settings", { headers });
  return (reply.json() as { runtime: { state: string; message?: string; httpPort: number } }).runtime;
}
