import { RevisionView } from "@flowgate/client";
import { parseFlows } from "@flowgate/flows";
import type { ClientContext } from "../client/action.ts";
import { ifPermitted } from "../client/session.ts";
import { UsageFailure } from "../failure.ts";
import { exportFile, formatNodes, removeFile } from "../flow-files/write-file.ts";
import { exportFolder } from "../flow-files/export-folder.ts";
import { modulesPathOf, planModulesFile } from "../flow-files/modules-file.ts";
import { shortRev } from "../output/values.ts";
import { findRevision } from "../administration/history.ts";

/** Writes the flows of a revision, by default the active one, to stdout, a file or a folder. */
export async function exportFlows(
  { session, output }: ClientContext,
  path: string | undefined,
  { rev: name }: { readonly rev?: string },
): Promise<void> {
  if (path === "") {
    throw new UsageFailure("The path is empty: specify a file or a folder, or omit it for stdout.");
  }
  const wanted = name === undefined ? "" : (await findRevision(session, name)).rev;
  const { flows: messages, rev } = await session.flows.getFlows({ rev: wanted });
  const { flows } = parseFlows(messages);
  const { format } = output;
  if (path === undefined || path === "-") {
    process.stdout.write(formatNodes(flows, format ?? "json"));
    return;
  }
  const nodes = flows.length === 1 ? "node" : "nodes";
  const exported = `Exported revision ${shortRev(rev)}, ${flows.length} ${nodes}, to ${path}`;
  // A user may be permitted to read flows only. The modules are not known then, and their file is left as it is.
  const revision = await ifPermitted(session, "revisions.read", () =>
    session.revisions.getRevision({ rev, view: RevisionView.FULL }),
  );
  const modules = revision?.modules;
  if (/\.(?:json|ya?ml)$/i.test(path)) {
    const modulesPath = modulesPathOf(path);
    const change = await planModulesFile(modulesPath, modules);
    await exportFile(path, flows, { format, ...(change?.text !== undefined && { beside: change }) });
    if (change !== undefined && change.text === undefined) {
      await removeFile(modulesPath);
    }
    process.stderr.write(`${exported}${modules?.length ? `, and its modules to ${modulesPath}` : ""}\n`);
  } else {
    const { written, removed } = await exportFolder(path, flows, { format, modules });
    const files = written.length === 1 ? "file" : "files";
    process.stderr.write(`${exported}: ${written.length} ${files} written, ${removed.length} removed\n`);
  }
  if (modules === undefined) {
    process.stderr.write("Which modules they need is not known without the permission revisions.read.\n");
  }
}
