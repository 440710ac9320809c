type Meaning = { readonly title: string; readonly meaning: string };

export const texts = {
  replicas: "Replicas",
  roles: "Roles",

  none: "none",
  meaning: "Permissions",
  unknownState: "A state that this page does not know.",
} as const;

/** The service fields shown, besides the runtime, the replicas and the user. */
export const serviceFields: Readonly<Record<"version" | "apiVersions", Meaning>> = {
  version: { title: "Version", meaning: "The version of Flowgate." },
  apiVersions: {
    title: "API versions",
    meaning: "The versions of the HTTP API, selected by the header Service-API-Version.",
  },
};

export const userFields: Readonly<Record<"username" | "permissions" | "token", Meaning>> = {
  username: { title: "User", meaning: "Your user name. The audit log records it with your changes." },
  permissions: {
    title: "Granted",
    meaning: "Your configured permissions, narrowed by the scope of your session or token.",
  },
  token: {
    title: "Session or token",
    meaning: "The id under which the page Tokens lists it, where it can be revoked.",
  },
};

/** The fields of the flow runtime, by their names in the contract. */
export const runtimeFields: Readonly<Record<string, Meaning>> = {
  name: { title: "Program", meaning: "The program that runs the flows, in a separate process." },
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
  outcome: { title: "Outcome", meaning: "The outcome of this revision on the replica." },
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

/** The kinds of isolation between flows and service, by their names in the contract. */
export const isolationMeanings: Readonly<Record<string, string>> = {
  none: "Only the permission model of Node.js restricts the flows.",
  process: "The flows gain no privileges, and their files are limited. They run as the user of the service.",
  user: "The flows run as another user, without capabilities, and with a limited number of processes.",
  namespaces: "The flows see neither the files nor the processes of the service, and have no capabilities.",
};

/** The modes by which replicas run the flows, by their names in the contract. */
export const modeTexts: Readonly<Record<string, string>> = {
  each: "each replica",
  one: "one replica at a time",
  none: "not this one",
};
