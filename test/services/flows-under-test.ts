import { type ConnectRouter, createContextValues, createRouterTransport } from "@connectrpc/connect";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { type GatewayRequest, createGateway } from "@flowgate/gateway";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService } from "../../gen/flowgate/v1/revisions_pb.ts";
import { Approvals } from "../../src/auth/approvals.ts";
import { openAnalysis } from "../../src/deployments/analysis/analysis.ts";
import { Deployer } from "../../src/deployments/deployer.ts";
import { ModuleSets } from "../../src/deployments/module-sets.ts";
import { openOutcomeRecorder } from "../../src/deployments/outcome-recorder.ts";
import { Probations } from "../../src/deployments/probations.ts";
import { principalKey } from "../../src/auth/caller.ts";
import { HealthMonitor } from "../../src/health/monitor.ts";
import { EventHub } from "../../src/events/hub.ts";
import { NodeStates } from "../../src/events/node-states.ts";
import type { Preparation } from "../../src/deployments/preparation/preparation.ts";
import { editFlow, findCreated } from "../../src/deployments/preparation/edit-flow.ts";
import { prepareDeployment, readFlowRequest } from "../../src/deployments/preparation/prepare-deployment.ts";
import type { Runtime } from "@flowgate/runtime";
import { formatError } from "../../src/server/http/error-response.ts";
import { toFailure } from "../../src/server/pipeline/errors.ts";
import { flowsService } from "../../src/services/flows.ts";
import { revisionsService } from "../../src/services/revisions.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import type { FlowStore } from "../../src/store/flow-store.ts";
import { silentObserver } from "../../src/telemetry/observer.ts";
import { noModules } from "./no-modules.ts";
import { createFolder } from "../store/builders.ts";

/** A runtime that starts flows by an `apply` to be added. */
const anyRuntime = {
  lastResult: () => undefined,
  nodeTypes: () => undefined,
  onResult: () => ({ [Symbol.dispose]() {} }),
  onChange: () => ({ [Symbol.dispose]() {} }),
  status: () => ({ name: "none", version: "0", state: "running", httpPort: 0, message: undefined }),
} as Partial<Runtime> as Runtime;

const log = pino({ level: "silent" });

const limit = { maxMs: 600_000, option: "" };

function decrypt(): never {
  throw new Error("nothing is encrypted here");
}

type Reply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** Undefined: there is none. */
  readonly body: unknown;
};

/** The services of flows and revisions with a new store, in this process. */
export type FlowsUnderTest = AsyncDisposable & {
  readonly store: FlowStore;
  readonly transport: ReturnType<typeof createRouterTransport>;
  /** Sends a request over REST, with a JSON body unless it is undefined. */
  send(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Reply>;
};

/**
 * `wrap` returns a store that is used instead of the opened one, `prepare` prepares deployments in its place, and `apply` starts
 * their flows.
 */
export async function openFlows({
  wrap = (store) => store,
  apply = async () => ({ outcome: "running", missingTypes: [] }),
  prepare = () => (request, current) => prepareDeployment(request, current.credentials, decrypt),
}: {
  readonly wrap?: (store: FlowStore) => FlowStore;
  readonly apply?: Runtime["apply"];
  readonly prepare?: (store: FlowStore) => Preparation["prepare"];
} = {}): Promise<FlowsUnderTest> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await createFolder());
  const opened = stack.use(await openSqliteStore({ path: join(folder.path, "flowgate.db"), key: randomBytes(32) }));
  const store = wrap(opened.flows);
  const { audit, desired } = opened;
  const runtime = { ...anyRuntime, apply };
  const { modules, moduleStore } = noModules;
  const sets = new ModuleSets({ modules, flows: store, store: moduleStore, audit, runtime, onIneffective() {}, log });
  const monitor = stack.use(
    new HealthMonitor({
      runtime,
      nodes: new NodeStates(),
      store,
      desired,
      cluster: undefined,
      disk: async () => undefined,
    }),
  );
  const outcomes = stack.use(openOutcomeRecorder({ store, runtime, monitor, desired, log }));
  const analysis = stack.use(openAnalysis({ log, memoryMb: 512, readLimit: limit, deploymentLimit: limit }));
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const probations = new Probations({
    store,
    runtime,
    analysis,
    modules: sets,
    hub,
    desired,
    outcomes,
    deadlineMs: 30_000,
    log,
  });
  const deployer = new Deployer({
    store,
    audit,
    analysis,
    modules: sets,
    runtime,
    probations,
    observer: silentObserver,
    log,
  });
  const approvals = new Approvals([]);
  const service = flowsService({
    store,
    deployer,
    decrypt,
    approvals,
    analysis,
    modules,
    runtime,
    monitor,
    preparation: {
      prepare: prepare(store),
      async decodeFlow(request) {
        return readFlowRequest(request);
      },
      findCreated: async ({ nodes }) => findCreated(nodes),
      editFlow: (edit, { flows, credentials }) => editFlow(edit, flows.nodes, credentials, decrypt),
    },
  });
  const revisions = revisionsService({
    store,
    moduleStore,
    modules,
    deployer,
    approvals,
    outcomes,
    analysis,
    maxPinned: 100,
  });
  const routes = (router: ConnectRouter) =>
    void router.service(FlowsService, service).service(RevisionsService, revisions);
  const gateway = createGateway({
    routes,
    errors: formatError,
    deferred: [FlowsService.method.setFlows],
    mapError: (error, context) => toFailure(error, log, context),
  });
  const resources = stack.move();
  return {
    store,
    transport: createRouterTransport(routes),
    async send(method, path, body, headers = {}) {
      const response = await gateway.handle(toRequest(method, path, body, headers));
      const text = response.body === undefined ? "" : Buffer.from(response.body as Uint8Array).toString();
      return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

function toRequest(
  httpMethod: string,
  target: string,
  body: unknown,
  headers: Readonly<Record<string, string>>,
): GatewayRequest {
  const bytes = Buffer.from(body === undefined ? "" : JSON.stringify(body));
  return {
    httpMethod,
    httpVersionMajor: 2,
    target,
    headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    url: () => `http://127.0.0.1${target}`,
    contextValues: () => createContextValues().set(principalKey, { username: undefined, permissions: ["*"] }),
    onAbort: () => {},
    hasBody: () => body !== undefined,
    readBody: async () => bytes,
    async *streamBody() {
      yield bytes;
    },
  };
}
