import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { EventSchema, LogLevel } from "../../../../gen/flowgate/v1/events_pb.ts";
import { DeploymentOutcome } from "../../../../gen/flowgate/v1/flows_pb.ts";
import { RuntimeState } from "../../../../gen/flowgate/v1/settings_pb.ts";
import { toMessages } from "../../src/comms/messages.ts";

type Init = MessageInitShape<typeof EventSchema>;

const node = { nodeId: "n", nodeType: "function", nodeName: "My node", flowId: "t" };
const inner = { ...node, subflowPath: ["outer", "instance"] };
const debug = { topic: "", property: "payload", format: "string[4]", value: "text" };
const failed = { outcome: DeploymentOutcome.FAILED, failure: `<img src=x onerror=alert(1)> __x__ $t(a, {"b": 1})` };

test.each<[string, Init, object[]]>([
  [
    "a status",
    { ...node, kind: { case: "nodeStatus", value: { text: "<b>up</b>", fill: "green" } } },
    [{ topic: "status/n", data: { text: "<b>up</b>", fill: "green" } }],
  ],
  ["a cleared status", { ...node, kind: { case: "nodeStatus", value: {} } }, [{ topic: "status/n", data: {} }]],
  [
    "the status of a node in a subflow",
    { ...inner, kind: { case: "nodeStatus", value: { text: "up" } } },
    [{ topic: "status/outer-instance-n", data: { text: "up" } }],
  ],
  [
    "a debug message",
    { ...node, kind: { case: "debug", value: { ...debug, topic: "x" } } },
    [
      {
        topic: "debug",
        data: {
          id: "n",
          z: "t",
          path: "t",
          name: "My node",
          topic: "x",
          property: "payload",
          msg: "text",
          format: "string[4]",
        },
      },
    ],
  ],
  [
    "a debug message of a node in a subflow",
    { ...inner, nodeName: "", kind: { case: "debug", value: debug } },
    [
      {
        topic: "debug",
        data: {
          id: "outer-instance-n",
          z: "outer-instance",
          _alias: "n",
          path: "t/outer/instance",
          property: "payload",
          msg: "text",
          format: "string[4]",
        },
      },
    ],
  ],
  [
    "a debug message of a configuration node",
    { ...node, nodeName: "", flowId: "", kind: { case: "debug", value: debug } },
    [
      {
        topic: "debug",
        data: { id: "n", z: "", path: "global", property: "payload", msg: "text", format: "string[4]" },
      },
    ],
  ],
  [
    "a shortened value that is no JSON any more",
    { ...node, kind: { case: "debug", value: { format: "array[2000]", value: "[1,2", truncated: true } } },
    [{ topic: "debug", data: { id: "n", z: "t", path: "t", name: "My node", msg: "[1,2", format: "string[4]" } }],
  ],
  [
    "a shortened value that still is",
    { ...node, kind: { case: "debug", value: { format: "array[2000]", value: "[1,2]", truncated: true } } },
    [{ topic: "debug", data: { id: "n", z: "t", path: "t", name: "My node", msg: "[1,2]", format: "array[2000]" } }],
  ],
  [
    "a value whose JSON was redacted within a number",
    { ...node, kind: { case: "debug", value: { format: "Object", value: `{"pin":[redacted]}` } } },
    [
      {
        topic: "debug",
        data: { id: "n", z: "t", path: "t", name: "My node", msg: `{"pin":[redacted]}`, format: "string[18]" },
      },
    ],
  ],
  [
    "a BigInt",
    { ...node, kind: { case: "debug", value: { format: "bigint", value: "123" } } },
    [
      {
        topic: "debug",
        data: {
          id: "n",
          z: "t",
          path: "t",
          name: "My node",
          msg: { __enc__: true, type: "bigint", data: "123" },
          format: "bigint",
        },
      },
    ],
  ],
  [
    "an error",
    { ...node, kind: { case: "nodeError", value: { level: LogLevel.ERROR, message: "<b>no</b>", count: 3 } } },
    [
      {
        topic: "debug",
        data: {
          id: "n",
          z: "t",
          path: "t",
          name: "My node",
          type: "function",
          level: 20,
          msg: "<b>no</b> (3 times)",
          format: "string[19]",
        },
      },
    ],
  ],
  [
    "an error that a catch node has received",
    { ...node, kind: { case: "nodeError", value: { level: LogLevel.ERROR, message: "no", count: 1, caught: true } } },
    [],
  ],
  [
    "a deployment",
    { rev: "r", kind: { case: "deployment", value: { outcome: DeploymentOutcome.PENDING } } },
    [
      { topic: "notification/runtime-deploy", data: { revision: "r" } },
      { topic: "notification/flowgate-deployment", data: {} },
    ],
  ],
  [
    "a deployment that lacks types",
    { rev: "r", kind: { case: "deployment", value: { ...failed, missingTypes: ["absent"] } } },
    [
      { topic: "notification/runtime-deploy", data: { revision: "r" } },
      {
        topic: "notification/runtime-state",
        data: {
          state: "stop",
          error: "missing-types",
          type: "warning",
          text: "notification.warnings.missing-types",
          types: ["absent"],
        },
      },
    ],
  ],
  [
    "a failed deployment, whose reason flows can write",
    { rev: "r", kind: { case: "deployment", value: failed } },
    [
      { topic: "notification/runtime-deploy", data: { revision: "r" } },
      { topic: "notification/flowgate-deployment", data: {} },
      {
        topic: "notification/flowgate-deployment",
        data: {
          type: "error",
          text: "notification.flowgate",
          timeout: 15_000,
          defaultValue:
            "The flows were deployed, but have failed: &#60;img src=x onerror=alert(1)&#62; &#95;&#95;x&#95;&#95; &#36;t(a, {&#34;b&#34;: 1})",
        },
      },
    ],
  ],
  [
    "flows that run",
    { kind: { case: "runtimeState", value: { state: RuntimeState.RUNNING } } },
    [{ topic: "notification/runtime-state", data: { state: "start", deploy: true } }],
  ],
  [
    "flows that were stopped",
    { kind: { case: "runtimeState", value: { state: RuntimeState.STOPPED } } },
    [{ topic: "notification/runtime-state", data: { state: "stop" } }],
  ],
  ["flows on standby", { kind: { case: "runtimeState", value: { state: RuntimeState.STANDBY } } }, []],
  ["flows that have failed", { kind: { case: "runtimeState", value: { state: RuntimeState.FAILED } } }, []],
  [
    "data of a module, as it is",
    { kind: { case: "editorMessage", value: { topic: "say/x", data: `{"html":"<img src=x onerror=alert(1)>"}` } } },
    [{ topic: "say/x", data: { html: "<img src=x onerror=alert(1)>" } }],
  ],
  ["data of a module whose flows have ended", { kind: { case: "editorMessage", value: { topic: "say/x" } } }, []],
  [
    "a notification of a module, without options of the translation",
    {
      kind: {
        case: "editorMessage",
        value: {
          topic: "notification/say",
          data: JSON.stringify({
            text: "<img src=x onerror=alert(1)> __evil__ $t(x)",
            evil: "<script>",
            type: "x onclick=",
            interpolation: { escapeValue: false },
            defaultValue: "<b>",
            timeout: "now",
          }),
        },
      },
    },
    [
      {
        topic: "notification/say",
        data: {
          type: "warning",
          text: "notification.flowgate",
          defaultValue: "&#60;img src=x onerror=alert(1)&#62; &#95;&#95;evil&#95;&#95; &#36;t(x)",
        },
      },
    ],
  ],
  [
    "a notification of a module by the key of its text",
    {
      kind: {
        case: "editorMessage",
        value: { topic: "notification/say", data: `{"text":"contrib/say:say.done","type":"success","timeout":500}` },
      },
    },
    [
      {
        topic: "notification/say",
        data: { type: "success", text: "contrib/say:say.done", defaultValue: "contrib/say:say.done", timeout: 500 },
      },
    ],
  ],
  [
    "a notification that closes the one before",
    { kind: { case: "editorMessage", value: { topic: "notification/say", data: "null" } } },
    [{ topic: "notification/say", data: {} }],
  ],
  [
    "missing messages",
    {
      kind: { case: "dropped", value: { reason: "slow_reader", count: 7, kinds: { debug: 5, nodeError: 1, log: 1 } } },
    },
    [
      {
        topic: "debug",
        data: { id: "", name: "flowgate", level: 30, msg: "6 messages are missing here", format: "string[27]" },
      },
    ],
  ],
  ["missing events of other kinds", { kind: { case: "dropped", value: { reason: "flood", kinds: { log: 1 } } } }, []],
  ["a bookmark", { kind: { case: "bookmark", value: {} } }, []],
])("%s", (_, init, expected) => {
  expect(toMessages(create(EventSchema, init))).toEqual(expected);
});

test.each<[DeploymentOutcome, string | undefined]>([
  [DeploymentOutcome.RUNNING, "is running."],
  [DeploymentOutcome.STOPPED, "was deployed. The flows are stopped."],
  [DeploymentOutcome.PENDING, undefined],
  [DeploymentOutcome.REPLACED, undefined],
])("a deployment of outcome %j has a link to its revision, once there is a result", (outcome, state) => {
  const event = create(EventSchema, { rev: "a_b-c$defghij", kind: { case: "deployment", value: { outcome } } });
  const [, ...notifications] = toMessages(event, (rev) => `https://flows.example/console/history/${rev}`);
  const link = `<a href="https://flows.example/console/history/a&#95;b-c&#36;defghij" target="&#95;blank" rel="noopener"><bdi>a&#95;b-c&#36;de</bdi></a>`;
  expect(notifications.map(({ data }) => data)).toEqual([
    {},
    ...(state === undefined
      ? []
      : [
          {
            type: "success",
            text: "notification.flowgate",
            defaultValue: `Revision ${link} ${state}`,
            timeout: 10_000,
          },
        ]),
  ]);
});
