/**
 * What a folder or file may import besides its own files: first the layers of the same tree and single files of it, then packages and
 * generated code, where `*` stands for any end. The longest path that contains a file is its layer, so that a layer does not include
 * those within its folder; `.` is the tree itself.
 */
type Layer = readonly [layers: string, packages?: string];

/** The packages of this repository that all layers of a tree may import. */
export const ownPackages: Readonly<Record<string, readonly string[]>> = {
  src: ["@flowgate/base/*", "@flowgate/flows*"],
  "packages/cli/src": ["@flowgate/base/*", "@flowgate/flows*"],
  "packages/node-red/src": ["@flowgate/base/*", "@flowgate/client", "@flowgate/flows/errors"],
};

/** The layers of each source tree, from its base to its entries: each names only those above it. */
export const trees: Readonly<Record<string, Readonly<Record<string, Layer>>>> = {
  src: {
    base: [""],
    "base/decoding-limit.ts": ["", "@bufbuild/protobuf* @flowgate/gateway/json"],
    "base/json-limit.ts": ["", "@flowgate/gateway/json"],
    "telemetry/span-record.ts": ["", "@flowgate/runtime @opentelemetry/api"],
    // Loaded only if an exporter is configured: the only file that imports OpenTelemetry's SDK.
    "telemetry/exporter.ts": ["telemetry/span-record.ts", "@opentelemetry/* pino"],
    telemetry: [
      "telemetry/exporter.ts",
      "@bufbuild/protobuf @connectrpc/connect* @flowgate/runtime @opentelemetry/api pino prom-client",
    ],
    store: ["", "pino"],
    "store/sql": ["store"],
    "store/sqlite": ["base store store/sql"],
    "store/postgres": ["store store/sql", "pg pino"],
    // The only file that imports adapters.
    "store/open-store.ts": ["store store/postgres store/sql store/sqlite"],
    // Which replica runs the flows, and what all of them do.
    replicas: ["store", "@flowgate/runtime pino"],
    events: ["base store", "gen/* @bufbuild/protobuf* @flowgate/gateway @flowgate/runtime pino"],
    // How the flows are, as one value.
    health: ["events replicas store telemetry", "gen/* @bufbuild/protobuf* @flowgate/runtime"],
    // The events of other replicas.
    "events/replicas": ["events store", "gen/* @connectrpc/connect pino"],
    "events/webhooks": ["events", "gen/* @bufbuild/protobuf* @flowgate/gateway @flowgate/runtime pino"],
    // The messages of the contract, from and to the documents of flows.
    "deployments/messages": ["", "gen/* @bufbuild/protobuf @flowgate/gateway/json-path"],
    "deployments/analysis": [
      "base deployments/messages",
      "gen/* @bufbuild/protobuf* @flowgate/gateway @flowgate/gateway/json-path pino",
    ],
    "deployments/preparation": [
      "base base/decoding-limit.ts deployments/messages",
      "gen/* @bufbuild/protobuf @flowgate/gateway pino",
    ],
    deployments: [
      "telemetry deployments/messages deployments/analysis store replicas events health",
      "gen/* @bufbuild/protobuf* @flowgate/runtime* @opentelemetry/api pino",
    ],
    auth: ["base store", "gen/* @bufbuild/protobuf* @connectrpc/connect bcryptjs jose openid-client pino"],
    services: [
      "base/json-limit.ts telemetry deployments/messages deployments/analysis deployments/preparation store replicas auth deployments events health events/replicas",
      "gen/* @bufbuild/protobuf* @connectrpc/connect @flowgate/gateway @flowgate/gateway/gen/* @flowgate/runtime*",
    ],
    "server/memory": ["", "@flowgate/gateway/server"],
    "server/http": ["auth", "@flowgate/gateway @flowgate/gateway/server pino"],
    "server/pipeline": [
      "telemetry auth server/http server/memory",
      "@bufbuild/protobuf @connectrpc/connect* @flowgate/gateway* @opentelemetry/api pino",
    ],
    "server/pipeline/guards": [
      "telemetry auth server/http server/pipeline",
      "@bufbuild/protobuf @connectrpc/connect @flowgate/gateway* pino",
    ],
    "server/endpoints": [
      "telemetry auth server/http server/pipeline server/pipeline/guards",
      "gen/* @bufbuild/protobuf @connectrpc/connect @flowgate/gateway* pino",
    ],
    // What browsers open.
    "server/pages": [
      "auth server/http server/pipeline",
      "@fastify/cookie @fastify/static @flowgate/gateway fastify light-my-request pino",
    ],
    server: [
      "base/decoding-limit.ts telemetry auth server/endpoints server/http server/memory server/pages server/pipeline server/pipeline/guards",
      "gen/* @bufbuild/protobuf @connectrpc/connect @flowgate/gateway* pino",
    ],
    // The listener of Node-RED's tools.
    "server/tools": [
      "base/json-limit.ts telemetry auth server/http server/memory server/pipeline server/pipeline/guards",
      "@bufbuild/protobuf @connectrpc/connect @flowgate/gateway/server fastify",
    ],
    options: [
      "auth events events/webhooks services server/http server/pipeline",
      "@flowgate/gateway/json-path @flowgate/runtime* zod",
    ],
    app: [
      `telemetry telemetry/span-record.ts deployments/analysis deployments/preparation store store/open-store.ts replicas auth deployments events health events/replicas events/webhooks
        services server server/endpoints server/http server/memory server/pipeline server/pipeline/guards server/tools options`,
      "gen/* @bufbuild/protobuf @connectrpc/connect* @flowgate/gateway* @flowgate/node-red @flowgate/runtime* @opentelemetry/api fastify pino",
    ],
    "index.ts": ["store store/open-store.ts options app", "@flowgate/runtime"],
    // The commands of the service. The entry loads it.
    cli: [
      "store store/open-store.ts auth options",
      "@bufbuild/protobuf @flowgate/cli* @flowgate/client @flowgate/runtime* commander yaml zod",
    ],
    "cli/run.ts": ["store/open-store.ts app cli", "@flowgate/cli*"],
    "cli/main.ts": ["cli/run.ts", "@flowgate/cli/compile-cache"],
  },

  // Knows nothing of nodes and flows.
  "packages/base/src": { ".": ["", "@flowgate/flows/errors @opentelemetry/api"] },

  // Knows no store and no service.
  "packages/runtime/src": {
    // The folder of added modules.
    modules: ["", "@flowgate/base/* @flowgate/flows/errors semver tar/*"],
    ".": ["modules", "@flowgate/base/* @flowgate/flows @flowgate/flows/errors @opentelemetry/api"],
    // The only folder that loads Node-RED: node-red.ts does, and types are imported elsewhere.
    child: [". modules", "@flowgate/base/* @flowgate/flows @flowgate/gateway/json-text @node-red/* bcryptjs"],
  },

  // No Node.js: it runs in browsers too.
  "packages/flows/src": {
    ".": ["", "@flowgate/gateway/json-path @flowgate/gateway/json-text diff"],
    // Credentials as Node-RED encrypts them.
    "encrypted.ts": [".", "@flowgate/gateway/json-text"],
  },

  "packages/gateway/src": {
    schema: ["", "packages/gateway/gen/* @bufbuild/protobuf*"],
    platform: ["", "@bufbuild/protobuf*"],
    http: ["platform schema", "#platform/* @bufbuild/protobuf* @connectrpc/connect"],
    json: ["schema http", "packages/gateway/gen/* #platform/* @bufbuild/protobuf* @connectrpc/connect"],
    routing: ["schema http json", "packages/gateway/gen/* @bufbuild/protobuf*"],
    call: ["schema http", "@bufbuild/protobuf* @connectrpc/connect"],
    errors: ["schema http json call", "packages/gateway/gen/* @bufbuild/protobuf* @connectrpc/connect"],
    options: [
      "platform schema http json routing errors",
      "packages/gateway/gen/* #platform/* @bufbuild/protobuf* @connectrpc/connect",
    ],
    protocols: [
      "platform schema http json routing call errors options",
      "packages/gateway/gen/* #platform/* @bufbuild/protobuf* @connectrpc/connect*",
    ],
    services: ["schema call options", "packages/gateway/gen/* @bufbuild/protobuf* @connectrpc/connect"],
    "gateway.ts": [
      "schema http routing call errors options protocols services",
      "@bufbuild/protobuf @connectrpc/connect",
    ],
    openapi: ["schema http json routing call errors options protocols", "@bufbuild/protobuf* @connectrpc/connect"],
    adapters: [
      "http call errors options protocols gateway.ts",
      "#platform/* @bufbuild/protobuf @connectrpc/connect fastify",
    ],
    plugin: [
      "json routing options openapi gateway.ts protocols/rest/stream/framing.ts",
      "packages/gateway/gen/* @bufbuild/protobuf*",
    ],
    // Runs in browsers.
    client: [
      "schema http json routing errors/codes.ts options/check-options.ts protocols/rest/stream/framing.ts",
      "packages/gateway/gen/* @bufbuild/protobuf* @connectrpc/connect*",
    ],
    "json.ts": ["http json"],
    "index.ts": ["platform schema http json routing call errors options protocols openapi gateway.ts"],
    "server.ts": ["http json routing call errors protocols adapters"],
  },

  // Runs in browsers.
  "packages/client/src": { ".": ["", "gen/* @bufbuild/protobuf* @connectrpc/connect @flowgate/gateway/gen/*"] },

  // The client commands, which are installed without the service.
  "packages/cli/src": {
    ".": [
      "",
      `@bomb.sh/tab @bufbuild/protobuf* @clack/prompts @connectrpc/* @flowgate/client @flowgate/gateway @flowgate/gateway/json
        @flowgate/gateway/json-path cli-table3 commander openid-client yaml yocto-spinner`,
    ],
    "node-red": [".", "@bufbuild/protobuf* @connectrpc/connect @flowgate/client acorn yaml"],
    // The definitions of the commands.
    commands: [". node-red", "@bomb.sh/tab @bufbuild/protobuf* @flowgate/client commander"],
    "command-line.ts": [". commands", "commander"],
    "run.ts": [". command-line.ts", "commander"],
    "main.ts": [". run.ts"],
    "index.ts": [". command-line.ts run.ts"],
  },

  // Node-RED's admin API and editor. Its service passes what it needs through `Host`.
  "packages/node-red/src": { ".": ["", "@bufbuild/protobuf @connectrpc/connect fastify mustache ws"] },

  // The web console.
  "packages/console/src": {
    texts: [""],
    api: ["", "@bufbuild/protobuf* @connectrpc/* @flowgate/client @tanstack/react-query react"],
    components: [
      "api texts",
      "@bufbuild/protobuf* @codemirror/* @connectrpc/* @flowgate/client @lezer/highlight @tanstack/* get-nonce radix-ui react uplot* wouter",
    ],
    // How flows and their differences are drawn.
    "flow-view": ["components texts", "@flowgate/client react"],
    "session.tsx": ["api components texts", "@connectrpc/connect-query @flowgate/client react"],
    pages: [
      "api components flow-view session.tsx texts",
      "@bufbuild/protobuf* @connectrpc/* @flowgate/client @tanstack/* react wouter",
    ],
    "app.tsx": ["api components pages session.tsx texts", "@connectrpc/connect-query @flowgate/client react wouter"],
    "main.tsx": ["styles.css api app.tsx session.tsx", "@connectrpc/connect-query @tanstack/react-query react* wouter"],
  },
};

/**
 * These load modules by `createRequire`, whose names the rule can't see: Node-RED, in the runtime process. Of Node-RED, the service loads only the function that writes the templates of subflows (`loaded-modules.ts`).
 * `resolve-package.ts` only resolves names. No other file loads Node-RED in any way.
 */
export const loaders: ReadonlySet<string> = new Set([
  "packages/base/src/resolve-package.ts",
  "packages/runtime/src/child/node-red.ts",
  "packages/runtime/src/modules/loaded-modules.ts",
]);

/** These import nothing of Node.js. */
export const browserLayers: ReadonlySet<string> = new Set([
  "packages/gateway/src/client",
  "packages/client/src",
  "packages/flows/src",
  ...["api", "components", "flow-view", "pages", "texts"].map((folder) => `packages/console/src/${folder}`),
]);
