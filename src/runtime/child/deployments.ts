import type flowUtil from "@node-red/util";
import type { RuntimeEvent } from "@node-red/util";
import type { FlowNode } from "../../flows/configuration.ts";
import type { CredentialEntries, Deploy } from "../messages.ts";

export type CredentialsObject = Record<string, object>;

/**
 * Returns the flows with empty `credentials` on each node whose credentials changed. Without this property the runtime
 * does not restart such a node in a `nodes` or `flows` deployment, and it keeps its previous credentials.
 */
export function markChangedCredentials(
  flows: readonly FlowNode[],
  { type, credentialsChanged }: Pick<Deploy, "type" | "credentialsChanged">,
): object[] {
  if (type === "full" || credentialsChanged.length === 0) {
    return [...flows];
  }
  const ids = new Set(credentialsChanged);
  return flows.map((node) => (ids.has(node.id) ? { ...node, credentials: {} } : node));
}

/**
 * Returns the credentials by node id. Removed ones are empty objects, because the runtime keeps those that are absent. Those of
 * `global-config` nodes are in `map`, where the runtime reads them.
 */
export function toCredentialsObject(
  entries: CredentialEntries,
  changed: readonly string[],
  flows: readonly FlowNode[],
): CredentialsObject {
  const globals = new Set(flows.filter(({ type }) => type === "global-config").map(({ id }) => id));
  return Object.fromEntries([
    ...changed.map((id) => [id, {}] as const),
    ...entries.map(([id, entry]) => {
      const set = Object.fromEntries(entry);
      return [id, globals.has(id) ? { map: set } : set] as const;
    }),
  ]);
}

export type FlowStorage = {
  /** The runtime's storage module. */
  readonly module: object;
  set(flows: object[], credentials: CredentialsObject): void;
};

/**
 * Creates an in-memory storage module for the flow runtime, without flows at first. The runtime reads it for a `reload`; the
 * parent stores the flows.
 */
export function createFlowStorage(): FlowStorage {
  let stored: { readonly flows: object[]; readonly credentials: CredentialsObject } = { flows: [], credentials: {} };

  return {
    // Must be a plain object: the runtime tests for own properties.
    module: {
      init: async () => {},
      getFlows: async () => stored.flows,
      saveFlows: async () => {},
      getCredentials: async () => stored.credentials,
      saveCredentials: async () => {},
      getSettings: async () => ({}),
      saveSettings: async () => {},
      getSessions: async () => ({}),
      saveSessions: async () => {},
      getLibraryEntry: async () => [],
      saveLibraryEntry: async () => {},
    },
    set(flows, credentials) {
      stored = { flows, credentials };
    },
  };
}

/** Returns a function that resolves with the next runtime event that matches. Each event is passed to `matches` once. */
export function createEventWaiter(util: typeof flowUtil): (matches: (event: RuntimeEvent) => boolean) => Promise<void> {
  const listeners = new Set<(event: RuntimeEvent) => void>();
  util.events.on("runtime-event", (event) => {
    for (const listener of listeners) {
      listener(event);
    }
  });

  return async (matches) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const listener = (event: RuntimeEvent) => {
      if (!matches(event)) {
        return;
      }
      listeners.delete(listener);
      resolve();
    };
    listeners.add(listener);
    await promise;
  };
}

/** Whether the event reports that the runtime has loaded its flows, or has failed to. */
export function isStartResult({ id, payload }: RuntimeEvent): boolean {
  return id === "runtime-state" && (payload?.state === "start" || payload?.error !== undefined);
}

export function describeFailure({ payload }: RuntimeEvent): string {
  switch (payload?.error) {
    case "missing-types":
      return `missing node types: ${payload.types?.join(", ")}`;
    case "missing-modules":
      return `missing modules: ${payload.modules?.map(({ module }) => module).join(", ")}`;
    default:
      return String(payload?.error);
  }
}

export type TabFailures = {
  /** Sets the listener, which is called with the stack of the error if a tab can't be started. */
  onFailure(listener: (stack: string) => void): void;
};

const stackOfTabStart = /^\s+at start \(.*runtime.lib.flows.index\.js/m;

/** Detects that a tab can't be started by intercepting `console.log`, since the runtime only prints the error and continues. */
export function watchTabFailures(): TabFailures {
  let notify: ((stack: string) => void) | undefined;
  const print = console.log; // oxlint-disable-line no-console
  // oxlint-disable-next-line no-console
  console.log = (...values: unknown[]) => {
    const [text] = values;
    if (typeof text === "string" && stackOfTabStart.test(text)) {
      notify?.(text);
    }
    print(...values);
  };
  return {
    onFailure(listener) {
      notify = listener;
    },
  };
}
