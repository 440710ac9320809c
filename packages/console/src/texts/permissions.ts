export const permissionTexts: Readonly<Record<string, string>> = {
  "flows.read":
    "Read the flows with their code, plan deployments and export the flows. Credentials are never included.",
  "flows.write": "Deploy, change, merge, restore and undo flows. This permits running any code in them.",
  "flows.propose": "Propose a deployment, which another user has to approve.",
  "flows.approve": "Approve or reject the proposals of others. An approval deploys them.",
  "flows.deploy_unapproved":
    "Deploy in an emergency without the approval that is required. Nothing else includes it, not even *.",
  "revisions.read": "Read the history: earlier revisions with their flows, authors and differences.",
  "revisions.write": "Change the message of a revision, and pin it, so that it is kept.",
  "proposals.read": "Read proposals with their flows, plans and decisions.",
  "runtime.read": "Read the state of the flow runtime, and status, counts and errors of its nodes.",
  "runtime.write": "Start, stop and restart the flows.",
  "runtime.inject": "Press the buttons of inject nodes, and send messages to other nodes.",
  "events.read": "Receive events, such as deployments, errors of nodes and changed states, when they happen.",
  "debug.read":
    "Receive the messages of debug nodes, which can contain the data that flows process. read does not include it.",
  "logs.read":
    "Read recorded logs and errors, which can contain the data that flows process. read does not include it.",
  "context.read":
    "Read the values that flows keep between messages, which can be the data that they process. read does not include it.",
  "context.write": "Change and delete the values that flows keep between messages.",
  "modules.read": "List the installed modules and the missing node types.",
  "modules.write": "Install, update, remove, enable and disable modules. Their code runs in the flow runtime.",
  "library.read": "Read the library of the editor: flows and functions that users have saved there.",
  "library.write": "Save flows and functions in the library of the editor.",
  "tokens.read": "List the access tokens and sessions of all users, without their secrets.",
  "tokens.write": "Create access tokens for oneself, and revoke any user's tokens.",
  "audit.read": "Read, export and verify the audit log, which has the names and addresses of users.",
  "settings.read": "Read the version and state of the service, and its replicas.",
  "metrics.read": "Read the metrics of the service and its flows.",
};

/** The names that stand for several permissions. */
const setTexts: Readonly<Record<string, string>> = {
  "*": "Everything but flows.deploy_unapproved.",
  read: "Each permission that ends in .read, but debug.read, logs.read and context.read.",
};

/** The roles that each service has. Its configuration can change them, and add others. */
export const roleTexts: Readonly<Record<string, string>> = {
  viewer: "See what runs: read.",
  deployer: "Change flows: read, flows.write, flows.propose, revisions.write and library.write.",
  operator:
    "Look after running flows, without changing their code: read, debug.read, logs.read, context.read, context.write, runtime.write and runtime.inject.",
  admin: "Everything but flows.deploy_unapproved.",
};

const onTab = /^(flows\.(?:write|propose|approve))@tab:(.+)$/;

const meanings: ReadonlyMap<string, string> = new Map(Object.entries({ ...permissionTexts, ...setTexts }));

/** Explains a permission of a user or token; undefined if this page does not know it. */
export function explainPermission(name: string): string | undefined {
  const [, permission, tab] = onTab.exec(name) ?? [];
  return permission === undefined || tab === undefined
    ? meanings.get(name)
    : `Like ${permission}, but only on the tab ${decode(tab)}.`;
}

function decode(tab: string): string {
  try {
    return decodeURIComponent(tab);
  } catch {
    return tab;
  }
}
