import type { Examples } from "@flowgate/transcoding";

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
const rev = "0198a4c2-6f0e-7b31-9d55-3c1f6a2e8b70";
const login = {
  client_id: "service-admin",
  grant_type: "password",
  scope: "*",
  username: "admin",
  password: "the password of admin",
};
const token = "6Qp2cB1oT0m3xk9yZ5vW8uN7rE4sA1dF";

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

/** The examples of the operations. A test validates each of them against its schema. */
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
            value: { error: "invalid_client", error_description: "This client_id is not one of the configured." },
          },
        },
      },
      429: {
        "application/json": {
          tooMany: {
            summary: "Too many failed logins",
            value: { error: "temporarily_unavailable", error_description: "Too many failed tries; try again later." },
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
        credentials: {
          summary: "v2: with top-level credentials",
          value: {
            flows: [{ id: "broker", type: "mqtt-broker", broker: "mqtt.example", port: 1883 }],
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
  FlowsService_PlanFlows: {
    request: { "application/json": { v1: { summary: "v1: the array of nodes", value: nodes } } },
    responses: {
      200: {
        "application/json": {
          plan: {
            summary: "One node restarts, and a configuration node is not used",
            value: {
              rev,
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
  RevisionsService_DiffRevision: {
    responses: {
      200: {
        "application/json": {
          diff: { summary: "One node is changed", value: { base: "0198a4c1-9a70-7c11-8f02-5d2b7e9c4a16", rev, diff } },
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
              runtime: { name: "node-red", version: "5.0.7", state: "running", httpPort: 1880 },
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
              },
            },
          },
        },
      },
    },
  },
};
