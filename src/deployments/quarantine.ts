import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Logger } from "pino";
import { type FlowNode, formatDocument, nameOf } from "@flowgate/flows";
import { findTab, replaceNodes } from "./messages/single-flow.ts";
import type { Fault, Runtime } from "@flowgate/runtime";
import { systemOrigin } from "../store/audit-store.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";
import type { Deployer } from "./deployer.ts";
import { type Change, isMismatch } from "./deployment.ts";

/** The extent of a quarantine: the failing node, or its whole tab. */
type QuarantineScope = "node" | "tab";

type QuarantineOptions = {
  readonly scope: QuarantineScope;
  readonly store: Pick<FlowStore, "active" | "onRevision">;
  readonly runtime: Pick<Runtime, "status" | "onChange">;
  readonly deployer: Pick<Deployer, "deploy">;
  readonly log: Logger;
};

/** After so many blocked processes in one revision, the node or tab is disabled. */
const maxFaults = 2;

/**
 * Disables the function node that has blocked the flows twice, or its tab, so that the others run. That is a deployment of the service
 * itself, which can be undone. Only a blocked event loop counts, since this process observes it by missing heartbeats: a crash is
 * described by the flows themselves, which could blame others. Disposing ends that.
 */
export class Quarantine implements Disposable {
  readonly #options: QuarantineOptions;
  readonly #subscriptions = new DisposableStack();
  /** In the active revision, by the id of what would be disabled. */
  readonly #faults = new Map<string, number>();
  readonly #ending = new AbortController();
  #last: Fault | undefined;

  constructor(options: QuarantineOptions) {
    this.#options = options;
    const { store, runtime } = options;
    this.#subscriptions.use(store.onRevision(() => this.#faults.clear()));
    this.#subscriptions.use(runtime.onChange(() => this.#observe()));
  }

  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
    this.#ending.abort();
  }

  #observe(): void {
    const { scope, runtime, store, log } = this.#options;
    const { state, reason, fault } = runtime.status();
    const isNew = fault !== undefined && fault !== this.#last;
    this.#last = fault;
    if (!isNew || state !== "restarting" || reason !== "blocked" || !fault.isCertain) {
      return;
    }
    const { nodeId, flowId } = fault.node;
    const id = scope === "node" ? nodeId : flowId;
    if (id === undefined || !isPlausible(store.active(), fault)) {
      return;
    }
    const count = (this.#faults.get(id) ?? 0) + 1;
    this.#faults.set(id, count);
    if (count === maxFaults) {
      const active = store.active();
      this.#disable(active, id).catch((err: unknown) => {
        // Another replica, or someone else, was faster.
        if (!isMismatch(err) && !this.#ending.signal.aborted) {
          log.error({ err, rev: active.rev }, "the node that blocks the flows could not be disabled");
        }
      });
    }
  }

  async #disable({ rev, flows }: Revision, id: string): Promise<void> {
    const { scope, deployer, log } = this.#options;
    const node =
      scope === "tab" ? findTab(flows.nodes, id) : flows.nodes.find((each) => each.id === id && each.type !== "tab");
    if (node === undefined) {
      return;
    }
    const what = `${node.type} ${JSON.stringify((nameOf(node) ?? id).slice(0, 200))}`;
    const message =
      `${what} was disabled by the service (runtime.quarantine: ${scope}), since it has blocked the flows ${maxFaults} times: ` +
      "correct and enable it, or undo this deployment with flowgate undo";
    log.warn({ rev, node: id }, message);
    await deployer.deploy(disableChange(node), {
      origin: systemOrigin,
      source: "",
      conditions: { isPrecondition: false, evaluate: () => rev },
      authorize: undefined,
      assertMayInstall() {},
      message,
      idempotencyKey: undefined,
      waitMs: undefined,
      undoOnFailure: false,
      maxErrors: 0,
      merge: false,
      signal: this.#ending.signal,
      untilMs: undefined,
      trace: ROOT_CONTEXT,
      startMs: performance.now(),
    });
  }
}

/** True if the watchdog can have reported this fault, which finds the code of function nodes only: flows can write to its pipe. */
function isPlausible({ flows }: Revision, { node: { nodeId, flowId, subflowPath = [] } }: Fault): boolean {
  const node = flows.nodes.find(({ id }) => id === nodeId);
  // The flow of a node in a subflow is the outermost instance's.
  const [outermostId = nodeId] = subflowPath;
  const outermost = flows.nodes.find(({ id }) => id === outermostId);
  return node?.type === "function" && outermost?.["z"] === flowId;
}

function disableChange(node: FlowNode): Change {
  const disabled = node.type === "tab" ? { ...node, disabled: true } : { ...node, d: true };
  return {
    cause: "flow",
    deploymentType: "nodes",
    async apply({ flows, credentials }) {
      const replaced = new Set(flows.nodes.filter(({ id }) => id === node.id));
      const nodes = replaceNodes(flows.nodes, replaced, [disabled]);
      return { flows: formatDocument(nodes), credentials, submitted: { inline: new Map(), topLevel: undefined } };
    },
    identity: () => [node.id],
  };
}
