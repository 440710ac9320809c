import { createListeners } from "@flowgate/base/listeners";
import type { AuditStore } from "./audit-store.ts";
import type { Cluster } from "./cluster.ts";
import type { CredentialKeys } from "./credential-keys.ts";
import type { ContextStore } from "./context-store.ts";
import type { DesiredStateStore } from "./desired-state.ts";
import type { DocumentStore } from "./document-store.ts";
import type { FlowStore } from "./flow-store.ts";
import type { JournalOptions, JournalStore } from "./journal-store.ts";
import type { LoginAttempts } from "./login-attempts.ts";
import type { ModuleStore } from "./module-store.ts";
import type { ProposalStore } from "./proposal-store.ts";
import type { SettingStore } from "./setting-store.ts";
import type { TokenStore } from "./token-store.ts";

/** `message` is public: it must not contain a path, an address or a secret. */
export type StoreHealth = { readonly isUsable: true } | { readonly isUsable: false; readonly message: string };

/** The address of a server: a TCP port, or a Unix socket in a folder. */
export type Endpoint = { readonly host: string; readonly port: number } | { readonly socketFolder: string };

/** The contract of every store, which `test/store/store-contract.ts` tests. Disposing waits for pending operations. */
export interface Store extends AsyncDisposable {
  readonly flows: FlowStore;
  readonly proposals: ProposalStore;
  readonly modules: ModuleStore;
  readonly desired: DesiredStateStore;
  readonly tokens: TokenStore;
  readonly audit: AuditStore;
  readonly documents: DocumentStore;
  readonly context: ContextStore;
  readonly settings: SettingStore;
  readonly logins: LoginAttempts;
  readonly keys: CredentialKeys;
  /** Opens the journal of events, once. It has to be disposed of before the store. */
  openJournal(options: JournalOptions): JournalStore;
  /** The other processes that use the store; undefined if only one can. */
  readonly cluster: Cluster | undefined;
  /** The servers that it connects to, so that flows can't take their place; none if it is a file. */
  readonly endpoints: readonly Endpoint[];
  /**
   * True if reads and writes succeeded last, without accessing storage. A store that is not usable keeps retrying. Errors
   * that are not failures of the storage, such as `version_mismatch` or a temporary lock, do not change it. A closed store
   * is not usable.
   */
  health(): StoreHealth;
  /** Calls the listener after each change of `health`. Disposing ends the subscription. The listener must not throw. */
  onHealthChange(listener: () => void): Disposable;
}

/** True if a database is usable, which it is at first. */
export class DatabaseHealth {
  #current: StoreHealth = { isUsable: true };
  readonly #listeners = createListeners<void>();

  get(): StoreHealth {
    return this.#current;
  }

  set(next: StoreHealth): void {
    const current = this.#current;
    if (
      current.isUsable !== next.isUsable ||
      (!current.isUsable && !next.isUsable && current.message !== next.message)
    ) {
      this.#current = next;
      this.#listeners.notify();
    }
  }

  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }
}

/** The health of a store, which is not usable either without the key of its credentials. */
export function withKeys(database: DatabaseHealth, keys: CredentialKeys): Pick<Store, "health" | "onHealthChange"> {
  return {
    health() {
      const message = keys.problem();
      const health = database.get();
      return message === undefined || !health.isUsable ? health : { isUsable: false, message };
    },
    onHealthChange(listener) {
      const listening = new DisposableStack();
      listening.use(database.onChange(listener));
      let problem = keys.problem();
      listening.use(
        keys.onChange(() => {
          if (keys.problem() !== problem) {
            problem = keys.problem();
            listener();
          }
        }),
      );
      return listening;
    },
  };
}
