type Meaning = { readonly title: string; readonly meaning: string };

export const texts = {
  title: "Settings",
  intro: "The state of this service, and what you may do. Settings are changed in its configuration file.",

  service: "Service",
  runtime: "Flow runtime",
  replicas: "Replicas",
  replicasHint: "The processes that use the same store. A replica that has not been seen for a while may have ended.",
  roles: "Roles",
  rolesHint: "Sets of permissions, whose names the configuration can grant and tokens can be limited to.",
  role: "Role",
  self: "this one",
  you: "You",
  links: "API",

  apiReference: "API reference",
  apiReferenceHint: "All operations with their parameters and examples.",
  openApi: "OpenAPI document",
  openApiHint: "The description of the HTTP API, to generate clients from.",
  metrics: "Metrics",
  metricsHint:
    "For Prometheus: GET /metrics, with an access token that has the permission metrics.read, or without one on the port metrics.port of the configuration.",

  anonymous: "No one has to sign in",
  anonymousHint: "adminAuth is not configured: every client that reaches the port may call every operation.",
  none: "none",
  noPort: "not open",
  permission: "Permission",
  granted: "You have it",
  meaning: "What it permits",
  yes: "yes",
  no: "no",
  onTabs: "on some tabs",
  permissionsTable: "All permissions",
  unknownPermission: "A permission that this page does not know.",
  unknownState: "A state that this page does not know.",
} as const;

/** What is shown of the service, besides the runtime, the replicas and the user. */
export const serviceFields: Readonly<Record<"version" | "apiVersions", Meaning>> = {
  version: { title: "Version", meaning: "The version of Flowgate." },
  apiVersions: {
    title: "API versions",
    meaning: "What clients of the HTTP API can choose with the header Service-API-Version.",
  },
};

export const userFields: Readonly<Record<"username" | "permissions" | "token", Meaning>> = {
  username: {
    title: "User",
    meaning: "The name by which you have signed in. The audit log has it with what you change.",
  },
  permissions: {
    title: "Granted",
    meaning: "What the configuration grants you, narrowed by the scope of your session or token.",
  },
  token: {
    title: "Session or token",
    meaning: "The id under which the page Tokens lists it, where it can be revoked.",
  },
};

/** The fields of the flow runtime, by their names in the contract. */
export const runtimeFields: Readonly<Record<string, Meaning>> = {
  name: { title: "Program", meaning: "What runs the flows, in a process of its own." },
  version: { title: "Version", meaning: "The version of that program. Its nodes and their properties depend on it." },
  state: { title: "State", meaning: "" },
  httpPort: { title: "HTTP port", meaning: "Where HTTP-in nodes receive requests." },
  message: { title: "Reason", meaning: "Why the active flows are not running." },
  isolation: { title: "Isolation", meaning: "" },
};

/** The columns of the replicas, by the names of the fields in the contract. */
export const replicaFields: Readonly<Record<string, Meaning>> = {
  name: { title: "Replica", meaning: "The host and the port of the API." },
  version: { title: "Version", meaning: "They differ while an update is rolled out." },
  mode: { title: "Runs flows", meaning: "Whether each replica runs the flows, one at a time, or not this one." },
  state: { title: "State", meaning: "The state of its flow runtime." },
  rev: { title: "Revision", meaning: "The revision that it runs." },
  outcome: { title: "Outcome", meaning: "What has become of this revision on the replica." },
  message: { title: "Reason", meaning: "Why the flows do not run there." },
  self: { title: "This one", meaning: "Whether it has answered this page." },
  lastSeenTime: { title: "Last seen", meaning: "When it last wrote its state to the store." },
};

/** The states of the flow runtime, by their names in the contract. */
export const stateMeanings: Readonly<Record<string, string>> = {
  starting: "The process or its flows are starting.",
  running: "The active flows are running.",
  failed: "The active flows can't be started, or nodes logged errors while they were started.",
  restarting: "The process has ended or hung, and is started again after a delay.",
  safe: "The process has ended too often: the flows are not started until the next deployment or restart.",
  stopped: "Someone has stopped the flows, or the service is stopping.",
  standby: "Another replica runs the flows.",
  disabled: "This replica runs no flows.",
};

/** What isolates the flows from the service, by the names in the contract. */
export const isolationMeanings: Readonly<Record<string, string>> = {
  none: "Only the permission model of Node.js restricts the flows.",
  process: "The flows gain no privileges, and their files are limited. They run as the user of the service.",
  user: "The flows run as another user, without capabilities, and with a limited number of processes.",
  namespaces: "The flows see neither the files nor the processes of the service, and have no capabilities.",
};

/** Which replicas run the flows, by the names in the contract. */
export const modeTexts: Readonly<Record<string, string>> = {
  each: "each replica",
  one: "one replica at a time",
  none: "not this one",
};
