import { stat } from "node:fs/promises";
import type { ClientContext } from "../client/client-action.ts";
import { usageFailure } from "../failure.ts";
import { deployFlows } from "./deploy.ts";
import { diffFlows } from "./diff.ts";
import type { DeploymentFlags } from "./flags.ts";
import { readFlows } from "./read-flows.ts";

/** Deploys what differs between a folder and the active flows, or only reports it. */
export async function syncFolder(
  context: ClientContext,
  folder: string,
  { type = "flows", check, ...flags }: DeploymentFlags & { readonly credentials?: string; readonly check?: true },
): Promise<void> {
  if ((await stat(folder).catch(() => undefined))?.isDirectory() !== true) {
    throw usageFailure(`${folder}: is not a folder. Deploy files with flowgate deploy.`, "flowgate sync");
  }
  const { flows, credentials } = await readFlows(context.session, [folder], flags);
  const input = { flows, credentials };
  await (check === true ? diffFlows(context, input, "") : deployFlows(context, input, { ...flags, type }));
}
