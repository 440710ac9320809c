// What the examples of several services have in common.

export const nodes = [
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
  { id: "a2c4e6f8b0d14f44", type: "http response", z: "9b1c0f5e2d7a4c11", name: "", x: 490, y: 80, wires: [] },
];
export const broker = { id: "broker", type: "mqtt-broker", name: "", broker: "mqtt.example", port: "1883" };
export const flowId = "9b1c0f5e2d7a4c11";
export const rev = "X-hNQdbcpZ2Y571JZ12AIw";
export const parentRev = "q3JwT0b8Zk6m1sVYd5uE9g";
export const revision = {
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
export const nodeError = {
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
export const diff = {
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
export const diffText = String.raw`0 added, 0 removed, 1 changed

tab "Greetings" (9b1c0f5e2d7a4c11)
  ~ function "greet" (7f3a1c8e5b2d4e33)
      func: "msg.payload = \"Hello!\"; return msg;" -> "msg.payload = \"Good morning!\"; return msg;"
`;

/** The examples of a body that is JSON. */
export function json<T>(examples: T): { readonly "application/json": T } {
  return { "application/json": examples };
}
