import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import type { ImportFlags } from "../node-red/import.ts";
import type { ServiceCommands } from "../service-commands.ts";
import { defineCommand } from "../define-command.ts";
import {
  addDeploymentFlags,
  addFlowsFlags,
  addForceFlag,
  addTypeFlag,
  fullFlag,
  revisionNames,
} from "../shared-flags.ts";

export function defineDeployCommands(root: Command, { checkConfiguration }: ServiceCommands): void {
  defineCommand(root, "validate", {
    summary: "check files of flows, without a server",
    description:
      "Check files of flows as a deployment does, without a server. Prints the line and column of each problem.",
    examples: {
      "flowgate validate flows.json": "a file, as Node-RED or flowgate export write it",
      "flowgate validate flows/": "a folder with a file for each tab",
      "flowgate validate - < flows.yaml": "stdin",
    },
  })
    .argument("<file...>", "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .action(outputAction(async () => (await import("../flow-files/validate.ts")).printValidation));

  defineCommand(root, "diff", {
    summary: "show differences between files and the server, or of revisions",
    description:
      "Show what changes from the active flows to those of files, or from one revision to another. The exit code is 2 if anything does.",
    examples: {
      "flowgate diff flows/": "what a deployment of this folder would change",
      "flowgate diff --rev @": "what the last deployment has changed",
      "flowgate diff --base @~3 --rev @": "what the last three have",
      "flowgate diff flows.json --base 4fGx0aQz": "a file and an earlier revision",
    },
  })
    .argument("[file...]", "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .option("--base <rev>", `compare with this revision instead of the active one: ${revisionNames}`)
    .option("--rev <rev>", "show this revision instead of files; the default base is its parent")
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json")
    .option(...fullFlag)
    .action(clientAction(async () => (await import("../deployment/plan.ts")).diff));

  const plan = defineCommand(root, "plan", {
    summary: "show what a deployment would do",
    description:
      "Show what a deployment would change, which nodes would restart, what is not installed, and warnings. Nothing is deployed.",
    details: planDetails,
    examples: {
      "flowgate plan flows.json": "a file, as Node-RED or flowgate export write it",
      "flowgate plan flows/": "a folder with a file for each tab",
      "flowgate plan --type nodes flows/": "only changed nodes would restart",
      "flowgate plan flows/ -o json": "for a program",
    },
  }).action(clientAction(async () => (await import("../deployment/plan.ts")).printPlan));
  addFlowsFlags(plan, "<file...>");
  addTypeFlag(plan)
    .option("--all-warnings", "list also the warnings that the active flows have too")
    .option(...fullFlag);

  const deploy = defineCommand(root, "deploy", {
    summary: "deploy flows",
    description: "Show what changes, and replace all flows by those of files.",
    details: deployDetails,
    examples: {
      "flowgate deploy flows.json": "show the plan, ask, and deploy",
      "flowgate deploy flows/ -m 'new tariff'": "a folder, with a comment",
      "flowgate deploy flows/ --wait 30 --undo-on-failure": "keep the active flows if these do not run",
      "flowgate deploy flows/ --wait 30 --max-errors 5": "fail if they log more than five errors",
      "flowgate deploy flows/ --rev 4fGx0aQz --merge": "merge with what was deployed since",
      "generate | flowgate deploy -": "from stdin, without a question",
      "flowgate deploy --type reload": "read the flows from the store again, and restart all nodes",
    },
  }).action(clientAction(async () => (await import("../deployment/deploy.ts")).deploy));
  addFlowsFlags(deploy, "[file...]");
  addForceFlag(addDeploymentFlags(deploy, ["full", "nodes", "flows", "reload"]));

  defineFlow(root);

  defineCommand(root, "export", {
    summary: "write the active flows to a file or a folder",
    description: "Write the active flows, or those of a revision, to stdout, a file or a folder.",
    details: exportDetails,
    examples: {
      "flowgate export > flows.json": "to stdout",
      "flowgate export flows/": "to a folder, to keep it in git and deploy it with flowgate sync",
      "flowgate export flows/ -o json": "the same, as JSON",
      "flowgate export --rev @~1 before.yaml": "the flows before the last deployment",
    },
  })
    .argument("[path]", "file or folder; stdout by default")
    .option("--rev <rev>", `revision: ${revisionNames}; by default the active one`)
    .action(clientAction(async () => (await import("../deployment/export.ts")).exportFlows));

  const sync = defineCommand(root, "sync", {
    summary: "deploy what differs from a folder",
    description: "Deploy what differs between a folder and the active flows; nothing if they are equal.",
    details: syncDetails,
    examples: {
      "flowgate export flows/": "write the active flows to a folder",
      "flowgate sync flows/": "show what changes, ask, and deploy",
      "flowgate sync flows/ --yes -m $COMMIT": "on each push",
      "flowgate sync flows/ --check": "find what was changed on the server only",
    },
  })
    .argument("<folder>", "folder with a file for each tab")
    .option("--check", "deploy nothing; exit with 2 if they differ, and with 0 if not")
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json")
    .action(clientAction(async () => (await import("../deployment/deploy.ts")).syncFolder));
  addForceFlag(addDeploymentFlags(sync, ["flows", "nodes", "full"]));

  const importing = defineCommand(root, "import", {
    summary: "deploy the flows of a Node-RED folder",
    description:
      "Deploy the flows and credentials in a user folder of Node-RED, usually ~/.node-red, or in the folder of one of its projects.",
    details: importDetails,
    examples: {
      "flowgate import ~/.node-red --dry-run": "see what would be imported and what not",
      "flowgate import ~/.node-red": "show the plan, ask, and deploy",
      "flowgate import ~/.node-red --credential-secret-file secret": "decrypt its credentials with this secret",
    },
  })
    .argument("<folder>", "user folder of Node-RED, or a folder in its folder projects")
    .option("--flow-file <file>", "file of flows, if it is not the one that Node-RED uses")
    .option("--credential-secret-file <file>", "file with the credentialSecret of Node-RED")
    .option("--write-config <file>", "write what belongs into flowgate.yaml to a new file")
    .option("--skip-context", "leave the values of persistent context as they are")
    .option("--skip-library", "leave the library of Node-RED's editor as it is")
    .option("--dry-run", "deploy nothing")
    .action(
      clientAction<[string, ImportFlags]>(async () => {
        const { importFolder } = await import("../node-red/import.ts");
        return (context, folder, flags) => importFolder(context, folder, flags, checkConfiguration);
      }),
    );
  addForceFlag(addDeploymentFlags(importing));
}

function defineFlow(root: Command): void {
  const flow = defineCommand(root, "flow", {
    summary: "enable and disable single flows",
    description: "Enable and disable single flows, the tabs of the editor.",
    examples: {
      "flowgate get flows": "which flows there are, and which are disabled",
      "flowgate flow disable Invoices": "stop the nodes of a tab",
      "flowgate flow enable Invoices": "and start them again",
    },
  });
  for (const [name, effect] of [
    ["enable", "start"],
    ["disable", "stop"],
  ] as const) {
    const command = defineCommand(flow, name, {
      summary: `${name} a flow, and ${effect} its nodes`,
      description: `Deploy the active flows with one tab ${name}d, so that its nodes ${effect}. With --type full, all flows restart.`,
      details: setFlowDetails,
      examples: {
        [`flowgate flow ${name} Invoices`]: "show the plan, ask, and deploy",
        [`flowgate flow ${name} 2b1c0fd8 --yes -m 'since the tariff is wrong'`]: "by its id, without a question",
      },
    })
      .argument("<tab>", "label or id of a tab")
      .action(
        clientAction(async () => {
          const { disableFlow, enableFlow } = await import("../deployment/set-flow.ts");
          return name === "enable" ? enableFlow : disableFlow;
        }),
      );
    addForceFlag(addDeploymentFlags(command, ["flows", "nodes", "full"]));
  }
}

const setFlowDetails = `
Like flowgate deploy, shows the plan and, in a terminal, asks. If someone else deploys in between, nothing is deployed and the exit
code is 3. A flow that is in this state already is not deployed again. flowgate undo takes it back.`;

const planDetails = `
The exit code is 4 if node types are not installed, because of which no flow would run, and otherwise 0, with or without
changes. flowgate diff exits with 2 if there are changes.`;

const deployDetails = `
Shows the plan and, in a terminal, asks for confirmation; without a terminal, as in a pipeline, it does not ask. Unless it
asks, it needs --force for flows that would not run, for nodes that lose credentials (those of removed nodes come back with
them), and to remove all tabs or more than half of the nodes. If someone else deploys between the plan and the deployment, nothing is deployed and the exit code is 3. If the flows
do not run, it is 4; if they run and nodes have errors, it is 5. Flows that are active already are not deployed again; the exit code is 4 or 5 too. Modules that an export
has written with the flows are installed before, as flowgate sync does it.`;

const exportDetails = `
A path that ends in .json, .yaml or .yml is a file, any other one a folder, which gets a stable file for each tab: changes
of one tab change one file. A file modules in the folder, or a file with this ending beside a file, such as flows.json.modules, has the
modules that the flows need, with versions and hashes: commands that deploy, plan or propose the flows read it too. Credentials are never
exported. -o selects the format.`;

const syncDetails = `
The folder is one that flowgate export has written, with a file for each tab. A tab whose file was removed is removed from
the server. Only changed nodes and those wired to them restart. Modules in the file modules that are not installed, or in other versions,
are installed before, which requires the permission modules.write; then all nodes restart. --check names them.
Like flowgate deploy, it needs --force to remove all tabs or more than half of the nodes without a question.

If nothing changes, the exit code is 4 while the active flows do not run, and 5 while they run and nodes have errors. With --check, it is 2 if
the folder and the server differ and 0 if not, whether the flows run or not: that is what flowgate status says.`;

const importDetails = `
Nothing in the folder is run or changed. The flows that Node-RED runs, which are those of the active project if projects are on, replace all
flows of the server. A table has what becomes of each setting in
settings.js: taken over, changed, not needed or not possible; -o prints it for programs. Users and settings are printed for
flowgate.yaml, with the permissions and modules that the flows need. Entries of the library and values of persistent context replace those of the
server; if it does not have their store yet, start it with that configuration and import again. The credentialSecret of Node-RED is read from settings.js or
.config.runtime.json; otherwise from --credential-secret-file, the variable NODE_RED_CREDENTIAL_SECRET, or a prompt.`;
