import { contextLimits } from "../storage.ts";

/** A store of context, as the modules of Node-RED create it. */
export type NodeRedContextStore = {
  open(): Promise<unknown>;
  /** Removes the values of all nodes and flows but these. */
  clean(ids: readonly string[]): Promise<unknown>;
  /** Of a store in memory: the values by the name of the scope. */
  readonly data?: Readonly<Record<string, object>>;
};

type Callback = (error?: unknown, ...values: unknown[]) => void;

/** Not documented: Node-RED's store in memory. */
export type MemoryStore = NodeRedContextStore & {
  readonly data: Record<string, Record<string, unknown>>;
  get(scope: string, key: string | string[], callback?: Callback): unknown;
  set(scope: string, key: string | string[], value: unknown, callback?: Callback): void;
  keys(scope: string, callback?: Callback): unknown;
  delete(scope: string): Promise<unknown>;
};

/** A value as it is sent: the scope, the key and its JSON; null: it was removed. */
export type SentValue = readonly [scope: string, key: string, json: string | null];

type DatabaseContextOptions = {
  readonly memory: MemoryStore;
  /** How long changed values may be here only, in seconds. */
  readonly flushInterval: number;
  /** The name of the property that an expression begins with. */
  readonly rootOf: (expression: string) => string;
  /** Resolves when the service has been sent them. */
  readonly send: (values: readonly SentValue[]) => Promise<void>;
  readonly warn: (message: string) => void;
};

/** Of the JSON of values that are sent at once. */
const batchBytes = contextLimits.valueBytes;

/** Keeps context in memory, and in the store of the service by way of its process. */
export class DatabaseContext implements NodeRedContextStore {
  readonly #options: DatabaseContextOptions;
  /** The keys that have changed, by scope. */
  readonly #changed = new Map<string, Set<string>>();
  /** Those that were too large, or can't be JSON, and are not reported again. */
  readonly #reported = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isLoaded = false;

  constructor(options: DatabaseContextOptions) {
    this.#options = options;
  }

  get data(): Record<string, Record<string, unknown>> {
    return this.#options.memory.data;
  }

  async open(): Promise<void> {}

  /** Takes what is stored. Must be called before there are flows. Flows can have forged it: what is malformed is left out. */
  load(values: readonly SentValue[]): void {
    for (const [scope, key, json] of values) {
      const value = parseJson(json ?? "");
      // No scope has the name of something that all objects inherit, which it would change.
      if (value !== undefined && key !== "__proto__" && !(scope in Object.prototype)) {
        (this.data[scope] ??= {})[key] = value;
      }
    }
    this.#isLoaded = true;
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#flush();
  }

  get(...call: Parameters<MemoryStore["get"]>): unknown {
    return this.#options.memory.get(...call);
  }

  set(scope: string, key: string | string[], value: unknown, callback?: Callback): void {
    this.#options.memory.set(scope, key, value, callback);
    for (const each of [key].flat()) {
      this.#change(scope, this.#options.rootOf(each));
    }
  }

  keys(...call: Parameters<MemoryStore["keys"]>): unknown {
    return this.#options.memory.keys(...call);
  }

  delete(scope: string): Promise<unknown> {
    this.#changeAll(scope);
    return this.#options.memory.delete(scope);
  }

  async clean(ids: readonly string[]): Promise<void> {
    if (!this.#isLoaded) {
      return;
    }
    const known = new Set(ids);
    for (const scope of Object.keys(this.data)) {
      if (scope !== "global" && !known.has(scope.split(":")[0] ?? "")) {
        this.#changeAll(scope);
      }
    }
    await this.#options.memory.clean(ids);
  }

  #changeAll(scope: string): void {
    Object.keys(this.data[scope] ?? {}).forEach((key) => this.#change(scope, key));
  }

  #change(scope: string, key: string): void {
    const keys = this.#changed.get(scope) ?? new Set<string>();
    this.#changed.set(scope, keys);
    keys.add(key);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#flush();
    }, this.#options.flushInterval * 1_000);
  }

  async #flush(): Promise<void> {
    const sent: Promise<void>[] = [];
    let batch: SentValue[] = [];
    let bytes = 0;
    const changed = [...this.#changed].flatMap(([scope, keys]) => Array.from(keys, (key) => [scope, key] as const));
    this.#changed.clear();
    for (const [scope, key] of changed) {
      const json = this.#format(scope, key);
      if (json !== undefined) {
        bytes += Buffer.byteLength(json ?? "") + scope.length + key.length;
        if (bytes > batchBytes && batch.length > 0) {
          sent.push(this.#options.send(batch));
          batch = [];
          bytes = 0;
        }
        batch.push([scope, key, json]);
      }
    }
    if (batch.length > 0) {
      sent.push(this.#options.send(batch));
    }
    await Promise.all(sent);
  }

  /** null: there is no value; undefined: it can't be stored. */
  #format(scope: string, key: string): string | null | undefined {
    const values = this.data[scope];
    const value = values !== undefined && Object.hasOwn(values, key) ? values[key] : undefined;
    let problem: string;
    try {
      const json = JSON.stringify(value) as string | undefined;
      if (json === undefined || Buffer.byteLength(json) <= contextLimits.valueBytes) {
        return json ?? null;
      }
      problem = `is larger than ${contextLimits.valueBytes / 1024} KiB`;
    } catch {
      problem = "can't be represented as JSON";
    }
    const place = JSON.stringify([scope, key]);
    if (!this.#reported.has(place) && this.#reported.size < 1_000) {
      this.#reported.add(place);
      this.#options.warn(`the value ${place} of context ${problem}: it is not kept in the store`);
    }
    return undefined;
  }
}

/** Undefined: it is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
