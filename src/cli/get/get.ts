import {
  DeploymentOutcomeSchema,
  DeploymentTypeSchema,
  FlowSchema,
  GetFlowsResponseSchema,
  GetSettingsResponseSchema,
  RevisionCauseSchema,
  RevisionSchema,
  RevisionView,
  RuntimeStateSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { enumWord } from "../output/enum-word.ts";
import { printable } from "../printable.ts";
import { formatTime } from "../output/time.ts";
import { findRevision } from "../revisions/find-revision.ts";
import { listNodes, listTabs } from "./list-nodes.ts";

export async function getFlows({ session, output }: ClientContext, { rev }: { readonly rev?: string }): Promise<void> {
  const named = rev === undefined ? undefined : await findRevision(session, rev);
  const response = await session.flows.getFlows({ rev: named?.rev ?? "" });
  output.message(GetFlowsResponseSchema, response, () => {
    const tabs = listTabs(response.flows);
    return tabs.length === 0
      ? `Revision ${printable(response.rev)} has no flows.`
      : output.table(["ID", "KIND", "NAME", "NODES", "STATE"], tabs);
  });
}

export async function getFlow({ session, output }: ClientContext, id: string): Promise<void> {
  const flow = await session.flows.getFlow({ id });
  output.message(FlowSchema, flow, () => {
    const { label = "", disabled = false, info = "", nodes, configs, subflows } = flow;
    const rows = listNodes([...nodes, ...configs]);
    return [
      output.fields([
        ["Id", printable(flow.id)],
        ["Name", printable(label)],
        ["State", disabled ? "disabled" : "enabled"],
        ["Description", printable(info)],
        ["Subflows", subflows.length === 0 ? "" : String(subflows.length)],
        ["Revision", printable(flow.rev)],
      ]),
      ...(rows.length === 0 ? [] : ["", output.table(["ID", "TYPE", "NAME"], rows)]),
    ].join("\n");
  });
}

export async function getSettings({ session, output }: ClientContext): Promise<void> {
  const settings = await session.settings.getSettings({});
  const { version, apiVersions, runtime, user } = settings;
  output.message(GetSettingsResponseSchema, settings, () =>
    output.fields([
      ["Version", printable(version)],
      ["API versions", printable(apiVersions.join(", "))],
      ["Runtime", printable([runtime?.name, runtime?.version].filter(Boolean).join(" "))],
      ["State", runtime === undefined ? "" : enumWord(RuntimeStateSchema, runtime.state)],
      ["HTTP port", String(runtime?.httpPort ?? "")],
      ["User", printable(user?.username ?? "")],
    ]),
  );
}

export async function getRevision(
  { session, output }: ClientContext,
  name: string,
  { flows = false }: { readonly flows?: boolean },
): Promise<void> {
  const { rev } = await findRevision(session, name);
  const view = flows ? RevisionView.FULL : RevisionView.BASIC;
  const revision = await session.revisions.getRevision({ rev, view });
  output.message(RevisionSchema, revision, () =>
    output.fields([
      ["Revision", printable(revision.rev)],
      ["Parent", printable(revision.parent)],
      ["Deployed", formatTime(revision.createTime)],
      ["User", printable(revision.user)],
      ["Address", printable(revision.clientAddress)],
      ["Type", enumWord(DeploymentTypeSchema, revision.deploymentType)],
      ["Cause", enumWord(RevisionCauseSchema, revision.cause)],
      ["Message", printable(revision.message)],
      ["Outcome", enumWord(DeploymentOutcomeSchema, revision.outcome)],
      ["Problem", printable(revision.outcomeMessage)],
      ["Missing types", printable(revision.missingTypes.join(", "))],
      ["Nodes", String(revision.nodeCount)],
      ["Active", revision.active ? "yes" : "no"],
      ["Pinned", revision.pinned ? "yes" : "no"],
    ]),
  );
}
