import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Logger } from "pino";
import type { FlowNode } from "../flows/configuration.ts";
import { formatDocument } from "../flows/document.ts";
import { nameOf } from "../flows/nodes.ts";
import type { Fault } from "../runtime/fault.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { systemOrigin } from "../store/audit-store.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";
import type { Deployer } from "./deployer.ts";
import { type Change, isMismatch } from "./deployment.ts";

/** What is disabled: the node that is at fault, or its whole tab. */
type QuarantineScope = "node" | "tab";

type QuarantineOptions = {
  readonly scope: QuarantineScope;
  readonly store: Pick<FlowStore, "active" | "onRevision">;
  readonly runtime: Pick<Runtime, "status" | "onChange">;
  readonly deployer: Pick<Deployer, "deploy">;
  readonly log: Logger;
};

/** After so many ends of the process in one revision, the node or tab is disabled. */
const maxFaults = 2;

/**
 * Disables the node or tab that has ended the process of the flows twice, so that the others run. That is a deployment of the service
 * itself, which can be undone. Only a node whose code was running then counts: the one that was active last may be another one.
 * Disposing ends that.
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
    const { state, fault } = runtime.status();
    const isNew = fault !== undefined && fault !== this.#last;
    this.#last = fault;
    if (!isNew || state !== "restarting" || !fault.isCertain) {
      return;
    }
    const id = scope === "node" ? fault.node.nodeId : fault.node.flowId;
    if (id === undefined) {
      return;
    }
    const count = (this.#faults.get(id) ?? 0) + 1;
    this.#faults.set(id, count);
    if (count === maxFaults) {
      const active = store.active();
      this.#disable(active, id).catch((err: unknown) => {
        // Another replica, or someone else, was faster.
        if (!isMismatch(err) && !this.#ending.signal.aborted) {
          log.error({ err, rev: active.rev }, "the node that ends the process of the flows could not be disabled");
        }
      });
    }
  }

  async #disable({ rev, flows }: Revision, id: string): Promise<void> {
    const { scope, deployer, log } = this.#options;
    const node = flows.nodes.find((each) => each.id === id && (each.type === "tab") === (scope === "tab"));
    if (node === undefined) {
      return;
    }
    const what = `${node.type} ${JSON.stringify((nameOf(node) ?? id).slice(0, 200))}`;
    const message =
      `${what} was disabled by the service (runtime.quarantine: ${scope}), since it has ended the process of the flows ${maxFaults} times: ` +
      "correct and enable it, or undo this deployment with flowgate undo";
    log.warn({ rev, node: id }, message);
    await deployer.deploy(disableChange(id, scope), {
      origin: systemOrigin,
      source: "",
      conditions: { isPrecondition: false, evaluate: () => rev },
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

function disableChange(id: string, scope: QuarantineScope): Change {
  const disable = (node: FlowNode): FlowNode => (scope === "tab" ? { ...node, disabled: true } : { ...node, d: true });
  return {
    cause: "flow",
    deploymentType: "nodes",
    async apply({ flows, credentials }) {
      const nodes = flows.nodes.map((node) => (node.id === id ? disable(node) : node));
      return { flows: await formatDocument(nodes), credentials, submitted: { inline: new Map(), topLevel: undefined } };
    },
    identity: () => [id],
  };
}
