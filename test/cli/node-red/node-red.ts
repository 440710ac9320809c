// Node-RED with its admin API and without the editor. It loads `settings.js` of the user folder that is its argument, deploys the
// flows on stdin with it, and ends.
import { type EventEmitter, once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { json } from "node:stream/consumers";

// Packages without types.
const require = createRequire(import.meta.url);
const util = require("@node-red/util") as { init(settings: object): void; readonly events: EventEmitter };
const runtime = require("@node-red/runtime") as {
  init(settings: object, server: Server, api: object): void;
  start(): Promise<void>;
  stop(): Promise<void>;
  readonly storage: object;
  readonly flows: { setFlows(options: object): Promise<object> };
};
const api = require("@node-red/editor-api") as {
  init(settings: object, server: Server, storage: object, runtime: object): void;
  start(): Promise<void>;
  stop(): Promise<void>;
  readonly httpAdmin: RequestListener;
};

const [userDir = ""] = process.argv.slice(2);
const settings = {
  ...(require(join(userDir, "settings.js")) as object),
  userDir,
  coreNodesDir: dirname(require.resolve("@node-red/nodes")),
  httpAdminRoot: "/",
  httpNodeRoot: false,
  disableEditor: true,
  telemetry: { enabled: false },
  logging: { console: { level: "off", metrics: false, audit: false } },
};
const server = createServer((request, response) => api.httpAdmin(request, response));
util.init(settings);
runtime.init(settings, server, api);
api.init(settings, server, runtime.storage, runtime);
// Credentials that are deployed before it has loaded its flows are not encrypted.
const loaded = once(util.events, "flows:started");
await runtime.start();
await api.start();
await loaded;
await runtime.flows.setFlows({ flows: { flows: await json(process.stdin) }, deploymentType: "full" });
await api.stop();
await runtime.stop();
process.exit();
