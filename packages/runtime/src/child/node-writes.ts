import type { StoredSettings } from "../messages.ts";
import type { CredentialNodes, StoredSettingsModule } from "./node-red.ts";

/** The settings that belong to Node-RED itself. */
const ownSettings: ReadonlySet<string> = new Set([
  "nodes",
  "modules",
  "users",
  "projects",
  "_credentialSecret",
  "instanceId",
  "telemetry",
]);

/** How long the end of the process waits until the service has stored everything. */
const settleMs = 1_000;

type Options = {
  /** Sends a text to the service, as `parseNodeWrite` reads it. */
  readonly send: (text: string) => void;
};

type Waiting = { readonly resolve: () => void; readonly reject: (error: Error) => void };

/** One write at a time of each node or setting; the newest of those that follow is sent after its reply. */
type Write = {
  readonly kind: "credentials" | "setting";
  readonly name: string;
  readonly json: string | null;
  readonly waiting: Waiting[];
};

/** Sends what nodes store to the service: credentials of their own, and settings of their modules. */
export class NodeWrites {
  readonly #send: Options["send"];
  #lastId = 0;
  /** By id. */
  readonly #sent = new Map<number, Write>();
  /** The newest of each, sent or not. */
  readonly #newest = new Map<string, Write>();
  readonly #idle = new Set<() => void>();
  /** The deployment whose credentials the nodes have. */
  #deployment: number | null = null;
  /** Those that the runtime has, by node id. */
  #credentials: Record<string, object> = {};
  /** Their JSON, as far as it was sent or received. */
  readonly #known = new Map<string, string>();
  #globals: ReadonlySet<string> = new Set();
  /** The settings that the runtime has, which are its own object. */
  readonly #settings: Record<string, unknown> = {};
  #savedSettings = new Map<string, string>();

  constructor({ send }: Options) {
    this.#send = send;
  }

  /** Must be called before modules are loaded: they get these functions. */
  follow(nodes: CredentialNodes, settings: StoredSettingsModule): void {
    const { addCredentials, deleteCredentials } = nodes;
    nodes.addCredentials = async (id, credentials) => {
      await Promise.all([addCredentials(id, credentials), this.#storeCredentials(String(id), credentials)]);
    };
    nodes.deleteCredentials = async (id) => {
      deleteCredentials(id);
      await this.#storeCredentials(String(id), {});
    };
    for (const name of ["set", "delete"] as const) {
      const original = settings[name];
      settings[name] = (...values) => {
        const stored = original.apply(settings, values);
        // A caller that ignores the promise must not end the process by that.
        stored.catch(() => {});
        return stored;
      };
    }
  }

  /** The settings that the runtime reads, and changes. `own` are those of Node-RED itself. */
  loadSettings(stored: StoredSettings, own: object): void {
    Object.assign(this.#settings, own);
    this.replaceSettings(stored);
  }

  get settings(): object {
    return this.#settings;
  }

  replaceSettings(stored: StoredSettings): void {
    for (const [name, json] of stored.filter(([name]) => isStorable(name))) {
      if (json === null) {
        delete this.#settings[name];
        this.#savedSettings.delete(name);
      } else {
        this.#settings[name] = JSON.parse(json);
        this.#savedSettings.set(name, json);
      }
    }
  }

  /** Resolves when all that have changed are stored. Rejects if one can't be. */
  async saveSettings(settings: object): Promise<void> {
    const saved = new Map(
      Object.entries(settings)
        .filter(([name]) => isStorable(name))
        .map(([name, value]) => [name, JSON.stringify(value) as string | undefined] as const)
        .filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    const removed = [...this.#savedSettings.keys()].filter((name) => !saved.has(name));
    const changed = [...saved].filter(([name, json]) => this.#savedSettings.get(name) !== json);
    this.#savedSettings = saved;
    await Promise.all([
      ...removed.map((name) => this.#store("setting", name, null)),
      ...changed.map(([name, json]) => this.#store("setting", name, json)),
    ]);
  }

  /**
   * Must be called when a deployment gives the runtime these credentials. What a node has stored meanwhile replaces its credentials, unless
   * they are `changed`.
   */
  deliver(
    deployment: number,
    credentials: Record<string, object>,
    { changed, globals }: { readonly changed: readonly string[]; readonly globals: ReadonlySet<string> },
  ): void {
    this.#globals = globals;
    const isChanged = new Set(changed);
    for (const { kind, name, json } of this.#newest.values()) {
      if (kind === "credentials" && json !== null && !isChanged.has(name)) {
        credentials[name] = this.#wrap(name, JSON.parse(json) as object);
      }
    }
    this.#known.clear();
    for (const [id, set] of Object.entries(credentials)) {
      this.#known.set(id, JSON.stringify(this.#unwrap(id, set)));
    }
    this.#deployment = deployment;
    this.#credentials = credentials;
  }

  /** The service has stored something, or can't. */
  handleReply(id: number, problem: string | undefined): void {
    const write = this.#sent.get(id);
    if (write === undefined) {
      return;
    }
    this.#sent.delete(id);
    const key = keyOf(write);
    const newest = this.#newest.get(key);
    if (newest === write) {
      this.#newest.delete(key);
    } else if (newest !== undefined) {
      this.#transmit(newest);
    }
    for (const { resolve, reject } of write.waiting) {
      if (problem === undefined || write.kind === "credentials") {
        resolve();
      } else {
        reject(new Error(`the setting ${write.name} can't be stored: ${problem}`));
      }
    }
    if (this.#sent.size === 0) {
      this.#idle.forEach((resolve) => resolve());
    }
  }

  /** Resolves when the service has stored everything, or after a second. */
  async settle(): Promise<void> {
    if (this.#sent.size > 0) {
      await new Promise<void>((resolve) => {
        this.#idle.add(resolve);
        setTimeout(resolve, settleMs);
      });
    }
  }

  /** Never rejects, as Node-RED's own function: its callers ignore the promise. The service logs why something is not stored. */
  async #storeCredentials(id: string, credentials: unknown): Promise<void> {
    const set = this.#unwrap(id, Object(credentials) as object);
    const json = JSON.stringify(set);
    const key = keyOf({ kind: "credentials", name: id });
    const pending = this.#newest.get(key);
    if (pending === undefined && this.#known.get(id) === json) {
      return;
    }
    this.#known.set(id, json);
    // The runtime may be about to take those of a deployment.
    if (Object.hasOwn(this.#credentials, id)) {
      this.#credentials[id] = this.#wrap(id, JSON.parse(json) as object);
    }
    await this.#store("credentials", id, json);
  }

  #store(kind: Write["kind"], name: string, json: string | null): Promise<void> {
    return new Promise((resolve, reject) => {
      const key = keyOf({ kind, name });
      const before = this.#newest.get(key);
      const isSent = before !== undefined && this.#sent.values().some((write) => write === before);
      const waiting = before === undefined || isSent ? [] : before.waiting;
      const write = { kind, name, json, waiting: [...waiting, { resolve, reject }] };
      this.#newest.set(key, write);
      if (before === undefined) {
        this.#transmit(write);
      }
    });
  }

  #transmit(write: Write): void {
    this.#lastId += 1;
    this.#sent.set(this.#lastId, write);
    const { kind, name, json } = write;
    this.#send(JSON.stringify([this.#lastId, kind, name, json, this.#deployment]));
  }

  /** Those of `global-config` nodes are in `map`. */
  #unwrap(id: string, set: object): object {
    const { map } = set as { readonly map?: unknown };
    if (!this.#globals.has(id) || typeof map !== "object" || map === null) {
      return set;
    }
    // Node-RED adds a flag for each of them, for its editor.
    const isFlag = ([name, value]: [string, unknown]): boolean => name.startsWith("has_") && typeof value === "boolean";
    return Object.fromEntries(Object.entries(map).filter((entry) => !isFlag(entry)));
  }

  #wrap(id: string, set: object): object {
    return this.#globals.has(id) ? { map: set } : set;
  }
}

function isStorable(name: string): boolean {
  return !ownSettings.has(name) && name !== "__proto__";
}

function keyOf({ kind, name }: Pick<Write, "kind" | "name">): string {
  return `${kind} ${name}`;
}
