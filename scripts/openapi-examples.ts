import type { Examples } from "@flowgate/gateway";

const nodes = [
  { id: "9b1c0f5e2d7a4c11", type: "tab", label: "Greetings" },
  {
    id: "4e0d7a2b9c6f4d22",
    type: "http in",
    z: "9b1c0f5e2d7a4c11",
    name: "",
    url: "/hello",
    method: "get",
    x: 140,
    y: 80,
    wires: [["7f3a1c8e5b2d4e33"]],
  },
  {
    id: "7f3a1c8e5b2d4e33",
    type: "function",
    z: "9b1c0f5e2d7a4c11",
    name: "greet",
    func: 'msg.payload = "Hello!"; return msg;',
    outputs: 1,
    x: 320,
    y: 80,
    wires: [["a2c4e6f8b0d14f44"]],
  },
  {
    id: "a2c4e6f8b0d14f44",
    type: "http response",
    z: "9b1c0f5e2d7a4c11",
    name: "",
    x: 490,
    y: 80,
    wires: [],
  },
];
const broker = { id: "broker", type: "mqtt-broker", name: "", broker: "mqtt.example", port: "1883" };
const planned = [
  ...nodes.map((node) =>
    node.type === "function" ? { ...node, func: 'msg.payload = "Good morning!"; return msg;' } : node,
  ),
  broker,
];
const flow = { label: "Greetings", nodes: nodes.slice(1) };
const flowId = "9b1c0f5e2d7a4c11";
const rev = "X-hNQdbcpZ2Y571JZ12AIw";
const parentRev = "q3JwT0b8Zk6m1sVYd5uE9g";
const revision = {
  rev,
  parent: parentRev,
  createTime: "2026-11-20T16:42:07.318Z",
  active: true,
  user: "admin",
  clientAddress: "10.0.0.17",
  protocol: "rest",
  requestId: "k2Jd9xQ1-4f",
  deploymentType: "full",
  cause: "deployment",
  message: "new greeting",
  outcome: "running",
  nodeCount: 4,
  sizeBytes: 571,
  tokenId: "4f0c2a9be8d15c7763a1f20e",
};
const { clientAddress: _, requestId: __, tokenId: ___, ...summary } = revision;
const runtime = {
  name: "node-red",
  version: "5.0.7",
  state: "running",
  httpPort: 1880,
  isolation: { level: "namespaces", user: 65_531 },
};
const nodeError = {
  id: "20f6vz1hxc0",
  time: "2026-11-20T16:42:09.572Z",
  rev,
  nodeId: "7f3a1c8e5b2d4e33",
  nodeType: "function",
  nodeName: "greet",
  flowId,
  flowLabel: "Greetings",
  nodeError: {
    level: "error",
    message: "TypeError: Cannot read properties of undefined (reading 'name')",
    stack: "    at Function node:7f3a1c8e5b2d4e33 [greet]:2:31",
    line: 2,
    column: 31,
    count: 1,
  },
};
const events = [
  {
    id: "20f6vz1e8lc",
    time: "2026-11-20T16:42:08.530Z",
    rev,
    deployment: { outcome: "running", user: "admin", message: "new greeting", type: "full", parent: parentRev },
  },
  { id: "20f6vz1e8lc", time: "2026-11-20T16:42:08.601Z", snapshotEnd: {} },
  nodeError,
];
const login = {
  client_id: "service-admin",
  grant_type: "password",
  scope: "*",
  username: "admin",
  password: "the password of admin",
};
const listedToken = {
  id: "4f0c2a9be8d15c7763a1f20e",
  name: "nightly backup",
  user: "admin",
  scope: "flows.read",
  createTime: "2026-11-20T08:15:30.125Z",
  expireTime: "2027-11-20T08:15:30.125Z",
  valid: true,
};
const hash = "5f0c6d1e8f7a9b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f80910a1b";
const auditEntry = {
  seq: 1204,
  time: "2026-11-20T16:42:07.318Z",
  kind: "deployment",
  user: "admin",
  address: "10.0.0.17",
  protocol: "rest",
  requestId: "k2Jd9xQ1-4f",
  subject: rev,
  detail: "full",
  count: 1,
  hash,
  tokenId: "4f0c2a9be8d15c7763a1f20e",
  digest: `${"8c1f".repeat(16)}.${"27ab".repeat(16)}`,
};
const token = "6Qp2cB1oT0m3xk9yZ5vW8uN7rE4sA1dF_h-JgK2LqXw";

const diff = {
  containers: [
    {
      kind: "tab",
      id: "9b1c0f5e2d7a4c11",
      name: "Greetings",
      nodes: [
        {
          id: "7f3a1c8e5b2d4e33",
          type: "function",
          name: "greet",
          role: "node",
          change: "changed",
          aspects: ["properties"],
          properties: [
            {
              path: "func",
              before: 'msg.payload = "Hello!"; return msg;',
              after: 'msg.payload = "Good morning!"; return msg;',
            },
          ],
        },
      ],
    },
  ],
};
const diffText = String.raw`0 added, 0 removed, 1 changed

tab "Greetings" (9b1c0f5e2d7a4c11)
  ~ function "greet" (7f3a1c8e5b2d4e33)
      func: "msg.payload = \"Hello!\"; return msg;" -> "msg.payload = \"Good morning!\"; return msg;"
`;

const planText = `nodes to start: 0, to stop: 0, to restart: 1
warning: mqtt-broker "broker": no node uses this configuration node

${diffText}`;

/**
 * The examples of the operations. Tests validate each of them against its schema, and compare it with what the service answers. The
 * names of examples for one value of Service-API-Version start with it: the documentation page selects them by it.
 */
export const examples: Examples = {
  AuthService_GetLogin: {
    responses: {
      200: {
        "application/json": {
          credentials: {
            summary: "Users log in",
            value: {
              type: "credentials",
              prompts: [
                { id: "username", type: "text", label: "Username" },
                { id: "password", type: "password", label: "Password" },
              ],
            },
          },
          none: { summary: "No authentication is needed", value: {} },
        },
      },
    },
  },
  AuthService_IssueToken: {
    request: {
      "application/x-www-form-urlencoded": { password: { summary: "With a password", value: login } },
      "application/json": { password: { summary: "With a password", value: login } },
    },
    responses: {
      200: {
        "application/json": {
          token: {
            summary: "A token for a week",
            value: { access_token: token, expires_in: 604_800, token_type: "Bearer" },
          },
          allPermissions: {
            summary: "For a request without scope",
            value: { access_token: token, expires_in: 604_800, token_type: "Bearer", scope: "*" },
          },
        },
      },
      400: {
        "application/json": {
          wrongPassword: {
            summary: "Unknown user or wrong password",
            value: { error: "invalid_grant", error_description: "The username or the password is wrong." },
          },
        },
      },
      401: {
        "application/json": {
          unknownClient: {
            summary: "Unknown client",
            value: { error: "invalid_client", error_description: "This client_id is not configured." },
          },
        },
      },
      429: {
        "application/json": {
          tooMany: {
            summary: "Too many failed logins",
            value: {
              error: "temporarily_unavailable",
              error_description: "Too many failed attempts; try again later.",
            },
          },
        },
      },
    },
  },
  AuthService_GetIdentity: {
    responses: {
      200: {
        "application/json": {
          login: {
            summary: "A token of a login",
            value: { username: "admin", permissions: ["*"], tokenId: "4f0c2a9be8d15c7763a1f20e" },
          },
        },
      },
    },
  },
  AuthService_RevokeToken: {
    request: {
      "application/x-www-form-urlencoded": { token: { value: { token } } },
      "application/json": { token: { value: { token } } },
    },
    responses: {
      400: {
        "application/json": {
          missing: {
            summary: "The parameter is missing",
            value: { error: "invalid_request", error_description: "The parameter token is missing or empty." },
          },
        },
      },
    },
  },
  FlowsService_GetFlows: {
    responses: {
      200: {
        "application/json": {
          v1: { summary: "v1: the array of nodes", value: nodes },
          v2: { summary: "v2: with the revision", value: { flows: nodes, rev } },
        },
      },
      default: {
        "application/json": {
          version: {
            summary: "Unknown Service-API-Version",
            value: { code: "invalid_api_version", message: "Service-API-Version: must be one of v1, v2" },
          },
        },
      },
    },
  },
  FlowsService_SetFlows: {
    request: {
      "application/json": {
        v1: { summary: "v1: the array of nodes", value: nodes },
        v2: { summary: "v2: only if the revision is still active", value: { flows: nodes, rev } },
        v2Credentials: {
          summary: "v2: with top-level credentials",
          value: {
            flows: [broker],
            credentials: { broker: { user: "flowgate", password: "the broker's password" } },
          },
        },
      },
    },
    responses: {
      200: { "application/json": { v2: { summary: "v2", value: { rev } } } },
      default: {
        "application/json": {
          flows: {
            summary: "A node without an id",
            value: { code: "invalid_flows", message: "flows[3].id: is missing" },
          },
        },
      },
    },
  },
  FlowsService_UndoFlows: {
    request: {
      "application/json": {
        active: { summary: "Undo the active revision", value: {} },
        guarded: { summary: "Only if this revision is still active", value: { rev } },
      },
    },
    responses: {
      200: { "application/json": { undone: { value: { rev: "Mv2xR7cHn4KfP0aLz8WtBQ" } } } },
      default: {
        "application/json": {
          mismatch: {
            summary: "Another revision is active",
            value: {
              code: "version_mismatch",
              message: `rev: the active revision is "${rev}": read it, resolve the differences and deploy again`,
              active: summary,
            },
          },
        },
      },
    },
  },
  FlowsService_GetFlow: {
    responses: {
      200: {
        "application/json": {
          tab: { summary: "A tab", value: { id: flowId, ...flow, rev } },
          global: {
            summary: "What all tabs share: /flow/global",
            value: {
              id: "global",
              nodes: [],
              configs: [broker],
              rev,
            },
          },
        },
      },
      default: {
        "application/json": {
          unknown: {
            summary: "No tab has this id",
            value: { code: "not_found", message: 'there is no flow "9b1c": no tab has this id' },
          },
        },
      },
    },
  },
  FlowsService_CreateFlow: {
    request: { "application/json": { flow: { summary: "Its id is assigned", value: flow } } },
    responses: {
      200: { "application/json": { created: { value: { id: flowId, rev } } } },
      default: {
        "application/json": {
          duplicate: {
            summary: "A node with the id of another one",
            value: {
              code: "invalid_flows",
              message: 'flow.nodes[0].id: must be unique, and that of a node of another flow is "4e0d7a2b9c6f4d22" too',
            },
          },
        },
      },
    },
  },
  FlowsService_UpdateFlow: {
    request: {
      "application/json": {
        guarded: { summary: "Only if the revision is still active", value: { id: flowId, ...flow, rev } },
        disabled: { summary: "Disabled", value: { ...flow, disabled: true } },
      },
    },
    responses: { 200: { "application/json": { changed: { value: { id: flowId, rev } } } } },
  },
  FlowsService_DeleteFlow: {
    responses: {
      default: {
        "application/json": {
          changed: {
            summary: "If-Match is not the active revision",
            value: {
              code: "precondition_failed",
              message: `the active revision is "${rev}": read it, resolve the differences and deploy again`,
              active: summary,
            },
          },
        },
      },
    },
  },
  FlowsService_EnableFlow: {
    request: { "application/json": { unconditional: { summary: "Whichever revision is active", value: {} } } },
    responses: { 200: { "application/json": { changed: { value: { id: flowId, rev } } } } },
  },
  FlowsService_DisableFlow: {
    request: { "application/json": { unconditional: { summary: "Whichever revision is active", value: {} } } },
    responses: { 200: { "application/json": { changed: { value: { id: flowId, rev } } } } },
  },
  FlowsService_PlanFlows: {
    request: {
      "application/json": {
        v1: { summary: "v1: the array of nodes", value: planned },
        v2: { summary: "v2: an object", value: { flows: planned } },
      },
    },
    responses: {
      200: {
        "text/plain": { plan: { summary: "The same for people", value: planText } },
        "application/json": {
          plan: {
            summary: "One node restarts, and a configuration node is not used",
            value: {
              rev,
              activeOutcome: "running",
              diff,
              nodes: [
                { id: "7f3a1c8e5b2d4e33", type: "function", name: "greet", tab: "9b1c0f5e2d7a4c11", action: "restart" },
              ],
              missingTypes: [],
              modules: [],
              warnings: [
                {
                  kind: "unused_config",
                  nodeId: "broker",
                  container: "",
                  message: 'mqtt-broker "broker": no node uses this configuration node',
                },
              ],
            },
          },
        },
      },
    },
  },
  RevisionsService_ListRevisions: {
    responses: {
      200: {
        "application/json": {
          page: {
            summary: "The newest revision, and the token of the next page",
            value: { revisions: [revision], nextPageToken: "MTIwNA" },
          },
        },
      },
      default: {
        "application/json": {
          token: {
            summary: "An invalid page token",
            value: {
              code: "invalid_argument",
              message: "pageToken: must be the nextPageToken of the previous page",
            },
          },
        },
      },
    },
  },
  RevisionsService_GetRevision: {
    responses: {
      200: {
        "application/json": {
          basic: { summary: "Without flows", value: revision },
          full: { summary: "?view=FULL", value: { ...revision, flows: nodes } },
        },
      },
      default: {
        "application/json": {
          unknown: {
            summary: "No such revision",
            value: {
              code: "not_found",
              message: 'there is no revision "0198"; it may have been removed from the history',
            },
          },
        },
      },
    },
  },
  RevisionsService_UpdateRevision: {
    request: {
      "application/json": {
        pin: { summary: "Keep it forever", value: { pinned: true } },
        message: { summary: "Change its message", value: { message: "before the migration" } },
      },
    },
    responses: { 200: { "application/json": { pinned: { value: { ...revision, pinned: true } } } } },
  },
  RevisionsService_RestoreRevision: {
    request: {
      "application/json": {
        any: { summary: "Whichever revision is active", value: {} },
        guarded: { summary: "Only if this revision is still active", value: { activeRev: rev } },
      },
    },
    responses: {
      200: { "application/json": { restored: { value: { rev: "Mv2xR7cHn4KfP0aLz8WtBQ" } } } },
    },
  },
  RevisionsService_DiffRevision: {
    responses: {
      200: {
        "application/json": {
          diff: { summary: "One node is changed", value: { base: parentRev, rev, diff } },
        },
        "text/plain": { diff: { summary: "The same for people", value: diffText } },
      },
    },
  },
  SettingsService_GetSettings: {
    responses: {
      200: {
        "application/json": {
          running: {
            summary: "The flows are running",
            value: {
              version: "0.2.0",
              apiVersions: ["v1", "v2"],
              runtime,
              user: { username: "admin", permissions: ["*"] },
            },
          },
          failed: {
            summary: "The flows can't be started",
            value: {
              version: "0.2.0",
              apiVersions: ["v1", "v2"],
              runtime: {
                name: "node-red",
                version: "5.0.7",
                state: "failed",
                httpPort: 1880,
                message: "missing node types: mqtt-broker",
                isolation: { level: "namespaces", user: 65_531 },
              },
            },
          },
        },
      },
    },
  },
  TokensService_ListTokens: {
    responses: {
      200: {
        "application/json": {
          tokens: {
            summary: "A named token, not used yet, and one of a login",
            value: {
              tokens: [
                listedToken,
                {
                  id: "90b1d27e3c5f4a6188e4c20d",
                  user: "editor",
                  scope: "flows.read flows.write",
                  clientId: "service-editor",
                  createTime: "2026-11-19T07:02:11.004Z",
                  expireTime: "2026-11-26T07:02:11.004Z",
                  lastUseTime: "2026-11-21T02:00:04.870Z",
                  valid: true,
                },
              ],
            },
          },
        },
      },
    },
  },
  ContextService_ListContext: {
    responses: {
      200: {
        "application/json": {
          keys: {
            value: {
              stores: ["memory"],
              scopes: [
                { scope: "global", store: "memory", keys: ["counter"] },
                { scope: `flow/${flowId}`, store: "memory", keys: ["names"] },
              ],
            },
          },
        },
      },
    },
  },
  ContextService_GetContext: {
    responses: {
      200: {
        "application/json": {
          value: { summary: "One value", value: { value: { count: 7 }, format: "object" } },
          scope: { summary: "All values of a scope", value: { values: { counter: { count: 7 } } } },
        },
      },
    },
  },
  ContextService_SetContext: {
    request: { "application/json": { value: { value: { value: { count: 7 } } } } },
    responses: { 200: { "application/json": { set: { value: {} } } } },
  },
  ContextService_DeleteContext: {},
  RuntimeService_InjectNode: {
    request: {
      "application/json": {
        message: { summary: "With a message", value: { message: { payload: "a value", topic: "test" } } },
        button: { summary: "Like the button of an inject node", value: {} },
      },
    },
    responses: { 200: { "application/json": { received: { value: {} } } } },
  },
  RuntimeService_StartFlows: {
    request: { "application/json": { start: { value: {} } } },
    responses: { 200: { "application/json": { running: { value: { rev, outcome: "running" } } } } },
  },
  RuntimeService_StopFlows: {
    request: { "application/json": { stop: { value: {} } } },
    responses: { 200: { "application/json": { stopped: { value: { rev } } } } },
  },
  RuntimeService_GetRuntime: {
    responses: {
      200: {
        "application/json": {
          running: {
            summary: "A node has logged errors",
            value: { runtime, rev, outcome: "running", started: true, failingNodes: 1 },
          },
        },
      },
    },
  },
  RuntimeService_ListNodeStatuses: {
    responses: {
      200: {
        "application/json": {
          failing: {
            summary: "A node that has logged errors",
            value: {
              nodes: [
                {
                  nodeId: nodeError.nodeId,
                  nodeType: nodeError.nodeType,
                  nodeName: nodeError.nodeName,
                  flowId,
                  flowLabel: nodeError.flowLabel,
                  status: { text: "1 greeting", fill: "green", shape: "dot" },
                  errors: 2,
                  warnings: 1,
                  lastError: nodeError.nodeError,
                  lastErrorTime: nodeError.time,
                  messages: 3,
                  lastMessageTime: nodeError.time,
                },
              ],
              flows: [
                {
                  flowId,
                  flowLabel: nodeError.flowLabel,
                  nodes: 3,
                  failingNodes: 1,
                  errors: 2,
                  warnings: 1,
                  messages: 9,
                  lastError: nodeError.nodeError,
                  lastErrorTime: nodeError.time,
                  lastMessageTime: nodeError.time,
                },
              ],
            },
          },
        },
      },
    },
  },
  RuntimeService_RestartRuntime: {
    request: { "application/json": { restart: { value: {} } } },
    responses: { 200: { "application/json": { running: { value: { rev, outcome: "running" } } } } },
  },
  TokensService_CreateToken: {
    request: {
      "application/json": {
        year: { summary: "For a year", value: { name: "nightly backup", scope: "flows.read", expiresIn: 31_536_000 } },
      },
    },
    responses: {
      201: { "application/json": { created: { value: { token: listedToken, accessToken: token } } } },
    },
  },
  TokensService_DeleteToken: {},
  TokensService_RevokeTokens: {
    request: {
      "application/json": {
        user: { summary: "All tokens of a user", value: { user: "editor" } },
        all: { summary: "All tokens", value: { all: true } },
      },
    },
    responses: { 200: { "application/json": { revoked: { value: { revoked: 3 } } } } },
  },
  AuditService_ListAuditEntries: {
    responses: {
      200: {
        "application/json": {
          entries: {
            summary: "A deployment, and failed logins",
            value: {
              entries: [
                auditEntry,
                {
                  seq: 1203,
                  time: "2026-11-20T16:40:00.002Z",
                  kind: "sign_in_failed",
                  user: "admin",
                  address: "10.0.0.17",
                  protocol: "rest",
                  requestId: "k2Jd9xQ1-3c",
                  detail: "wrong password",
                  count: 4,
                  hash: hash.replace("5f0c", "c03e"),
                },
              ],
              nextPageToken: "MTIwMw",
            },
          },
        },
      },
    },
  },
  AuditService_ExportAudit: {
    responses: {
      200: {
        "application/x-ndjson": { entries: { value: `${JSON.stringify(auditEntry)}\n` } },
        "text/event-stream": { entries: { value: `data: ${JSON.stringify(auditEntry)}\n\n` } },
        "application/json": { entries: { value: [auditEntry] } },
      },
    },
  },
  AuditService_VerifyAudit: {
    responses: {
      200: {
        "application/json": {
          intact: {
            summary: "Nothing was changed",
            value: { intact: true, entries: 1204, revisions: 310, head: `1204:${hash}` },
          },
          changed: {
            summary: "An entry was changed",
            value: {
              intact: false,
              problem: "entry 812 was changed, or is not the one that followed entry 811",
              entries: 811,
              revisions: 0,
              head: `811:${hash}`,
            },
          },
        },
      },
    },
  },
  EventsService_WatchEvents: {
    responses: {
      200: {
        "application/x-ndjson": { events: { value: events.map((event) => `${JSON.stringify(event)}\n`).join("") } },
        "text/event-stream": {
          events: { value: events.map((event) => formatEvent(event)).join("") },
        },
        "application/json": { events: { value: events } },
      },
    },
  },
  LogsService_ListLogs: {
    responses: {
      200: {
        "application/json": {
          logs: {
            summary: "An error of a node",
            value: { logs: [nodeError], nextPageToken: "MjBmNnZ6MWh4YzAg" },
          },
        },
      },
    },
  },
};

function formatEvent({ id, ...event }: { readonly id: string }): string {
  const kind = Object.keys(event).at(-1) ?? "";
  const name = kind.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify({ id, ...event })}\n\n`;
}
