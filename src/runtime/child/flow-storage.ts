import type { CredentialsObject } from "./deployment.ts";

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
