// Node-RED with its own admin API and without the editor, embedded as its documentation describes. Argument: its directory.
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { AddressInfo } from "node:net";

// Packages without types.
const require = createRequire(import.meta.url);
const util = require("@node-red/util") as { init(settings: object): void };
const runtime = require("@node-red/runtime") as {
  init(settings: object, server: Server, api: object): void;
  start(): Promise<void>;
  readonly storage: object;
};
const api = require("@node-red/editor-api") as {
  init(settings: object, server: Server, storage: object, runtime: object): void;
  start(): Promise<void>;
  readonly httpAdmin: RequestListener;
};

const [userDir = ""] = process.argv.slice(2);
const settings = {
  userDir,
  coreNodesDir: dirname(require.resolve("@node-red/nodes")),
  httpAdminRoot: "/",
  httpNodeRoot: false,
  disableEditor: true,
  apiMaxLength: "200mb",
  credentialSecret: "a secret for benchmarks",
  telemetry: { enabled: false },
  functionExternalModules: false,
  logging: { console: { level: "off", metrics: false, audit: false } },
};
const server = createServer((request, response) => api.httpAdmin(request, response));
util.init(settings);
runtime.init(settings, server, api);
api.init(settings, server, runtime.storage, runtime);
await runtime.start();
await api.start();
// The timeout of the service, so that requests are not sent on a connection that is being closed.
server.keepAliveTimeout = 72_000;
await once(server.listen(0, "127.0.0.1"), "listening");
process.stdout.write(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
process.once("SIGTERM", () => process.exit());
