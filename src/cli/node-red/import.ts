import type { ClientContext } from "../client/action.ts";
import type { DeploymentFlags } from "../shared-flags.ts";
import { deployFlows } from "../deployment/deploy.ts";
import { planFlows, printFlowsPlan, showPreview } from "../deployment/plan.ts";
import { CliFailure } from "../failure.ts";
import { readBytes } from "../flow-files/read-file.ts";
import type { Output } from "../output/output.ts";
import { askSecret, canAsk } from "../output/prompts.ts";
import { MissingSecretFailure } from "./credentials.ts";
import { formatInstall } from "./required-modules.ts";
import { type NodeRedImport, type NodeRedSource, readUserFolder } from "./user-folder.ts";

export type ImportFlags = DeploymentFlags & {
  readonly flowFile?: string;
  readonly credentialSecretFile?: string;
  readonly dryRun?: true;
};

/** Deploys the flows and credentials of a Node-RED, and prints what else has to be done. */
export async function importFolder(context: ClientContext, folder: string, flags: ImportFlags): Promise<void> {
  const { flowFile, credentialSecretFile, dryRun, ...deployment } = flags;
  const credentialSecret = await readSecret(credentialSecretFile);
  const imported = await readWithSecret({ folder, flowFile, credentialSecret });
  const { missingTypes } = await planFlows(context, imported, deployment);
  const missing = new Set(missingTypes.map(({ type }) => type));
  const modules = imported.modules.filter(
    ({ types }) => types === undefined || types.some((type) => missing.has(type)),
  );
  showPreview(context.output, formatReport({ ...imported, modules }, context.output));
  await (dryRun === true
    ? printFlowsPlan(context, imported, deployment)
    : deployFlows(context, { flows: imported.flows, credentials: imported.credentials }, deployment));
}

async function readSecret(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) {
    return process.env["NODE_RED_CREDENTIAL_SECRET"] || undefined;
  }
  return (await readBytes(file)).toString("utf8").replace(/\r?\n$/, "");
}

/** Asks for the secret if there is none, and a person to ask. */
async function readWithSecret(source: NodeRedSource): Promise<NodeRedImport> {
  try {
    return await readUserFolder(source);
  } catch (error) {
    if (!(error instanceof MissingSecretFailure)) {
      throw error;
    }
    if (source.credentialSecret !== undefined || !canAsk()) {
      throw new CliFailure(
        `${error.message}.\nThe secret can be in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET.`,
        { cause: error },
      );
    }
    return readUserFolder({ ...source, credentialSecret: await askSecret("credentialSecret of Node-RED") });
  }
}

function formatReport(imported: NodeRedImport, output: Output): string {
  const { flowsFile, flows, credentials, users, permissions, modules, notes } = imported;
  const withCredentials = Object.keys(credentials?.nodes ?? {}).length;
  const section = (title: string, text: string): string[] => [output.style("bold", title), text, ""];
  return [
    `${flowsFile}: ${flows.length} nodes, ${withCredentials} of them with credentials`,
    "",
    ...(users === undefined ? [] : section("For flowgate.yaml, the users:", users.trimEnd())),
    ...(permissions === undefined
      ? []
      : section(
          "For flowgate.yaml, what the flows use and the sandbox denies unless it is permitted:",
          permissions.trimEnd(),
        )),
    ...(modules.length === 0
      ? []
      : section(
          "Unless they are installed, run this first, as the user of the service, where its data directory is:",
          formatInstall(modules),
        )),
    ...(notes.length === 0 ? [] : section("Not imported:", output.style("yellow", notes.join("\n")))),
  ].join("\n");
}
