import { type Command, Option } from "commander";
import { clientAction } from "../client/action.ts";
import { addTypeFlag, addWaitFlags, fullFlag, parseLimit, revisionNames } from "../shared-flags.ts";
import { defineCommand } from "../define-command.ts";

/** Deployments that another person approves. */
export function defineProposalCommands(root: Command): void {
  const propose = defineCommand(root, "propose", {
    summary: "propose a deployment, which another user approves",
    description: "Propose to replace all flows by those of files. Nothing is deployed until another user approves it.",
    details: proposeDetails,
    examples: {
      "flowgate propose flows/ -m 'new tariff'": "show what would change, and propose it",
      "flowgate propose flows.json --wait 30 --undo-on-failure": "how it is deployed when it is approved",
      "flowgate proposal list --state open": "what waits for an approval",
    },
  })
    .argument("<file...>", "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .option("--rev <rev>", `fail if another revision is active: ${revisionNames}`)
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json")
    .action(clientAction(async () => (await import("../deployment/propose.ts")).propose));
  addWaitFlags(
    addTypeFlag(propose).option("-m, --message <text>", "comment for those who review it, to keep with the revision"),
    0,
  ).option(...fullFlag);

  const proposal = defineCommand(root, "proposal", {
    summary: "review, approve and reject proposed deployments",
    description: "List, show, approve, reject and withdraw proposed deployments.",
    examples: {
      "flowgate proposal list --state open": "what waits for an approval",
      "flowgate proposal show 8c1f": "what it would change",
      "flowgate proposal approve 8c1f": "show it, ask, and deploy it",
    },
  });

  defineCommand(proposal, "list", {
    summary: "list proposals",
    description: "List proposals, newest first.",
    examples: {
      "flowgate proposal list --state open": "what waits for an approval",
      "flowgate proposal list --user ada -o json": "what ada has proposed, for a program",
    },
  })
    .addOption(
      new Option("--state <state>", "only those in this state").choices([
        "open",
        "approved",
        "rejected",
        "withdrawn",
        "stale",
        "expired",
      ]),
    )
    .option("--user <name>", "only those by this user")
    .option("-n, --limit <number>", "list at most this many", parseLimit, 20)
    .action(clientAction(async () => (await import("../deployment/proposals.ts")).listProposals));

  defineCommand(proposal, "show", {
    summary: "show a proposal, and what it would change",
    description:
      "Show who has proposed what, when and why, and what its approval would change and restart. Credentials that it contains count as changed, and are never shown.",
    examples: {
      "flowgate proposal show 8c1f": "by its id, or the beginning of that",
      "flowgate proposal show 8c1f -o json": "for a program: the proposal and its plan",
    },
  })
    .argument("<id>", idDescription)
    .option(...fullFlag)
    .action(clientAction(async () => (await import("../deployment/proposals.ts")).showProposal));

  defineCommand(proposal, "approve", {
    summary: "approve the proposal of another user, and deploy it",
    description: "Show a proposal and, in a terminal, ask; then approve it and deploy exactly what was shown.",
    details: approveDetails,
    examples: {
      "flowgate proposal approve 8c1f": "show it, ask, and deploy it",
      "flowgate proposal approve 8c1f --digest $DIGEST": "what was reviewed before, without a question",
    },
  })
    .argument("<id>", idDescription)
    .option("--digest <digest>", "approve what has this digest, which flowgate proposal show prints; do not ask")
    .option("-m, --message <text>", "comment to keep with the proposal")
    .option("-y, --yes", "do not ask")
    .option(...fullFlag)
    .action(clientAction(async () => (await import("../deployment/proposals.ts")).approveProposal));

  defineCommand(proposal, "reject", {
    summary: "reject the proposal of another user",
    description: "Reject the proposal of another user, which can't be approved any more then.",
    examples: { "flowgate proposal reject 8c1f -m 'the tariff is wrong'": "with a reason" },
  })
    .argument("<id>", idDescription)
    .option("-m, --message <text>", "why")
    .action(clientAction(async () => (await import("../deployment/proposals.ts")).rejectProposal));

  defineCommand(proposal, "withdraw", {
    summary: "withdraw a proposal of yours",
    description: "Withdraw a proposal of yours, which can't be approved any more then.",
    examples: { "flowgate proposal withdraw 8c1f": "by the beginning of its id" },
  })
    .argument("<id>", idDescription)
    .option("-m, --message <text>", "why")
    .action(clientAction(async () => (await import("../deployment/proposals.ts")).withdrawProposal));
}

const idDescription = "id of a proposal, or its beginning";

const proposeDetails = `
The proposal is a change of the active revision, or of the one after --rev, which must be active. It is checked like a deployment. Any
other deployment makes it stale: propose the flows again then. It expires after approvals.expiryDays, a week by default. Flows that are
active already are not proposed. If someone else deploys in between, the exit code is 3. Modules in the file modules of a folder, or beside
a file, are a part of the proposal: its approval installs those that are not installed, or in other versions.`;

const approveDetails = `
The user who has proposed it can't approve it, also not with another token. The exit code is 3 if it is stale, since another deployment has
replaced its base, if it has another digest, or if it was closed before; 4 if the flows do not run. If the proposal names modules that are not
installed, or in other versions, they are installed before, which requires the permission modules.write.`;
