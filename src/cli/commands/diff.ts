import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { fullFlag } from "../deployment/flags.ts";
import { examples } from "../examples.ts";
import { usageFailure } from "../failure.ts";
import { revisionNames } from "../revisions/revision-argument.ts";

type DiffFlags = { readonly rev?: string; readonly base?: string; readonly credentials?: string };

export function defineDiff(root: Command): void {
  root
    .command("diff")
    .summary("show differences between files and the server, or of revisions")
    .description(
      "Show what changes from the active flows to those of files, or from one revision to another. The exit code is 2 if anything does.",
    )
    .argument("[file...]", "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .option("--base <rev>", `compare with this revision instead of the active one: ${revisionNames}`)
    .option("--rev <rev>", "show this revision instead of files; the default base is its parent")
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json")
    .option(...fullFlag)
    .addHelpText(
      "after",
      examples(
        ["flowgate diff flows/", "what a deployment of this folder would change"],
        ["flowgate diff --rev @", "what the last deployment has changed"],
        ["flowgate diff --base @~3 --rev @", "what the last three have"],
        ["flowgate diff flows.json --base 4fGx0aQz", "a file and an earlier revision"],
      ),
    )
    .action(
      clientAction(async (context, paths: readonly string[], flags: DiffFlags) => {
        const { base, rev } = flags;
        const { diffFlows, diffRevisions } = await import("../deployment/diff.ts");
        if (paths.length === 0 && rev !== undefined) {
          return diffRevisions(context, rev, base);
        }
        if (paths.length === 0 || rev !== undefined) {
          throw usageFailure("Name either files or, with --rev, a revision.", "flowgate diff");
        }
        const [{ readFlows }, { findRevision }] = await Promise.all([
          import("../deployment/read-flows.ts"),
          import("../revisions/find-revision.ts"),
        ]);
        const input = await readFlows(context.session, paths, { credentials: flags.credentials });
        const from = base === undefined ? "" : (await findRevision(context.session, base)).rev;
        return diffFlows(context, input, from);
      }),
    );
}
