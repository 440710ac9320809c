import * as z from "zod";
import { flag, port, text, wholeNumber } from "./values.ts";

const key = /^[A-Za-z]\w{0,99}$/;
const notAName = "must be a name of letters, digits and _";

export const globalContext = z
  .record(z.string(), z.json("must be JSON"), "must be names and values")
  .superRefine((values, context) => {
    for (const name of Object.keys(values).filter((each) => !key.test(each))) {
      context.addIssue({ code: "custom", path: [name], message: notAName });
    }
  })
  .readonly()
  .default({})
  .describe(
    "Values that flows find in the global context, as in Node-RED's `functionGlobalContext`. Code is not possible.",
  );

const count = wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** Settings of Node-RED that the service sets, and what to use instead. */
const ownSettings: ReadonlyMap<string, string> = new Map([
  ...["userDir", "coreNodesDir", "storageModule", "readOnly", "safeMode", "instanceId", "version", "settingsFile"].map(
    (name): [string, string] => [name, "is set by the service"],
  ),
  ["flowFile", "is not used: flows are in the store"],
  ["credentialSecret", "is the option credentialSecret"],
  ["adminAuth", "is the option adminAuth"],
  ["https", "is the option runtime.http.tls"],
  ["httpNodeRoot", "is the option runtime.http.root"],
  ["httpNodeAuth", "is the option runtime.http.auth"],
  ["httpNodeCors", "is the option runtime.http.cors"],
  ["httpNodeMiddleware", "is code, which is not possible: use a proxy"],
  ["httpStatic", "is the option runtime.http.static"],
  ["httpStaticAuth", "is the option runtime.http.staticAuth"],
  ["contextStorage", "is the option runtime.contextStorage"],
  ["functionGlobalContext", "is the option runtime.globalContext"],
  ["externalModules", "is the option modules"],
  ["nodesDir", "is not possible: make a module of these nodes"],
  ["nodeCloseTimeout", "is the option runtime.nodeCloseTimeoutMs"],
  ["logging", "is the option log"],
  ...["httpRoot", "httpAdminRoot", "disableEditor", "editorTheme", "telemetry", "runtimeState"].map(
    (name): [string, string] => [name, "is not used: the runtime process has no admin API of Node-RED"],
  ),
  // Functions of the settings object, which it would replace.
  ...["init", "load", "get", "set", "delete", "available", "reset"].map((name): [string, string] => [
    name,
    "is the name of a function of Node-RED",
  ]),
]);

/** Node-RED settings that nodes read, by their names. Other JSON settings are allowed for nodes of modules. */
export const nodeSettings = z
  .object({
    uiPort: port
      .optional()
      .describe("Port that nodes read from `RED.settings.uiPort`, such as a proxy's. Absent: `runtime.port`."),
    uiHost: text.optional().describe("The same for `RED.settings.uiHost`. Absent: `runtime.host`."),
    functionExternalModules: flag
      .optional()
      .describe("Whether function nodes may load installed modules by their *Setup* tab. Absent: they may."),
    globalFunctionTimeout: z
      .number("must be a number of seconds")
      .min(0, "must not be negative")
      .optional()
      .describe("Time limit of a function node in seconds, unless it has its own. Absent or 0: none."),
    nodeMessageBufferMaxLength: count
      .optional()
      .describe("Maximum number of messages that a node keeps, such as a join node. Absent or 0: no limit."),
    apiMaxLength: z
      .string("must be a size such as 5mb")
      .regex(/^\d+(?:\.\d+)? *(?:b|kb|mb|gb)$/i, "must be a size such as 5mb")
      .optional()
      .describe("Largest body that an HTTP-in node accepts, such as `5mb`, which is the default."),
    debugMaxLength: count.optional().describe("Maximum length of texts in debug messages. Absent: 1000."),
    fileWorkingDirectory: text
      .optional()
      .describe("Folder of relative paths in file nodes, which has to be permitted. Absent: `runtime.dir`."),
    execMaxBufferSize: count.optional().describe("Maximum output of an exec node in bytes. Absent: 10 MB."),
    httpRequestTimeout: count.optional().describe("Time limit of http request nodes in ms. Absent: 120000."),
    mqttReconnectTime: count.optional().describe("Delay before MQTT nodes reconnect, in ms. Absent: 5000."),
    socketReconnectTime: count.optional().describe("Delay before TCP nodes reconnect, in ms. Absent: 10000."),
    socketTimeout: count.optional().describe("How long a TCP connection may be idle, in ms. Absent: any time."),
    tcpMsgQueueSize: count
      .optional()
      .describe("How many messages a TCP request node keeps while it connects. Absent: 1000."),
    inboundWebSocketTimeout: count
      .optional()
      .describe("How long a WebSocket that no node accepts stays open, in ms. Absent: 5000."),
  })
  .catchall(z.json("must be JSON"))
  .superRefine((settings, context) => {
    for (const name of Object.keys(settings)) {
      const problem = key.test(name) ? ownSettings.get(name) : notAName;
      if (problem !== undefined) {
        context.addIssue({ code: "custom", path: [name], message: problem });
      }
    }
  })
  .prefault({});
