import { setTimeout as delay } from "node:timers/promises";
import { isFields } from "@flowgate/base/fields";
import {
  type CredentialSets,
  type CredentialValue,
  type CredentialSet,
  isSameSet,
  findJsonViolation,
  findKeyViolation,
} from "@flowgate/flows";
import type { LogEntry } from "./messages.ts";
import type { Redact } from "./redaction.ts";
import type { Revision } from "./revision.ts";
import { type NodeStorage, settingLimits } from "./storage.ts";

/** The credentials of one node. */
const credentialLimits = { idChars: 256, names: 100, nameChars: 256, bytes: 64 * 1024 };

/** Of a message, which contains JSON as a text. */
export const maxWriteBytes = 2 * settingLimits.valueBytes;

/** Of what waits to be written: its JSON, and the calls of nodes. */
const pendingLimits = { bytes: 16 * 1024 * 1024, calls: 10_000 };

/** How many sets of credentials are written at once. The audit log has an entry for each. */
const maxBatch = 100;

/** How many sets of credentials can be written: a burst, and then so many in a second. */
const rate = { burst: 5_000, perSecond: 1 };

const retryMs = 1_000;

/** How long the end of the flows, and the next deployment, wait until all is written. */
const settleMs = 2_000;

/** How long the start of a process waits for the store. */
const readMs = 2_000;

/** Something that a node stores: its credentials, or a setting of its module. */
export type NodeWrite = {
  /** Of the process. */
  readonly id: number;
  /** The deployment whose credentials the process has taken last; undefined: none. */
  readonly deployment: number | undefined;
} & WriteContent;

type WriteContent =
  | {
      readonly kind: "credentials";
      readonly nodeId: string;
      readonly set: NonNullable<CredentialSet>;
      readonly bytes: number;
    }
  | { readonly kind: "setting"; readonly name: string; readonly json: string | undefined; readonly bytes: number }
  /** It is not stored. */
  | { readonly kind: "invalid"; readonly name: string; readonly problem: string };

type Done = (problem: string | undefined) => void;

type Origin = {
  /** The revision that the node belongs to; undefined: the active one. */
  readonly sinceSeq: number | undefined;
  /** The credentials that the process had for the node. */
  readonly replaced: CredentialSet;
  /** Called when it is stored, or will not be. */
  readonly done: Done;
};

type Pending = { readonly bytes: number; readonly done: readonly Done[] };
type PendingCredentials = Pending &
  Pick<Origin, "sinceSeq" | "replaced"> & { readonly set: NonNullable<CredentialSet> };
type PendingSetting = Pending & { readonly json: string | undefined };

type Options = {
  readonly log: (entry: LogEntry, source: "runtime") => void;
  readonly storage: NodeStorage;
  /** That of the lease with which the flows run; undefined: there is none. */
  readonly token: number | undefined;
  readonly redact: Redact;
};

/**
 * Data that nodes store: their own credentials, such as renewed tokens, and settings of their modules. It is written one batch after
 * another, the newest value of each. Before, it is what the next runtime process has.
 */
export class NodeWrites {
  readonly #options: Options;
  readonly #credentials = new Map<string, PendingCredentials>();
  readonly #settings = new Map<string, PendingSetting>();
  /** Of both. */
  #bytes = 0;
  #calls = 0;
  #writing: Promise<void> | undefined;
  /** True if another replica runs the flows. */
  #isLost = false;
  #left: number = rate.burst;
  #leftAtMs = performance.now();
  readonly #warned = new Set<string>();

  constructor(options: Options) {
    this.#options = options;
  }

  /** The settings for a process that is prepared. */
  get settings(): ReadonlyMap<string, string> {
    return withChanges(this.#options.storage.settings.current(), [...this.#settings]);
  }

  /** Reads what other replicas have stored. If that is not possible, flows start with what is known. */
  async refresh(): Promise<void> {
    const { storage } = this.#options;
    const read = async (): Promise<void> => {
      await storage.catchUp();
      await storage.settings.read();
    };
    const isRead = await Promise.race([
      read().then(
        () => true,
        () => false,
      ),
      delay(readMs, false, { ref: false }),
    ]);
    if (!isRead) {
      this.#warn("what nodes have stored can't be read: the flows start with what is known of it");
    }
  }

  /** The credentials for the flows of a revision, with those of nodes that are not deployed yet. */
  credentialsOf(revision: Revision): CredentialSets {
    const { storage } = this.#options;
    const active = storage.active();
    const sets = new Map(storage.unclaimedCredentials());
    (active.rev === revision.rev ? active : revision).credentials.forEach((set, id) => sets.set(id, set));
    for (const [id, { set, sinceSeq, replaced }] of this.#credentials) {
      // The deployment of a later revision can have other credentials for the node.
      if (sinceSeq === undefined || sinceSeq >= revision.seq || isSameSet(sets.get(id), replaced)) {
        sets.set(id, set);
      }
    }
    return sets;
  }

  add(write: NodeWrite, { sinceSeq, replaced, done }: Origin): void {
    if (write.kind === "invalid") {
      this.#refuse(write.name, write.problem, done);
      return;
    }
    if (this.#isLost) {
      done(lost);
      return;
    }
    const { bytes } = write;
    if (write.kind === "credentials") {
      const { nodeId, set } = write;
      this.#options.storage.onCredentials(new Map([[nodeId, set]]));
      const before = this.#credentials.get(nodeId);
      const calls = this.#replace(before, write, done);
      if (calls !== undefined) {
        const pending = { bytes, set, sinceSeq, replaced: before ? before.replaced : replaced, done: calls };
        this.#credentials.set(nodeId, pending);
      }
    } else {
      const { name, json } = write;
      const calls = this.#replace(this.#settings.get(name), write, done);
      if (calls !== undefined) {
        this.#settings.set(name, { bytes, json, done: calls });
      }
    }
    this.#writing ??= this.#write();
  }

  /** Returns the calls that wait for a write which replaces this one; undefined: there is no place for it. */
  #replace(before: Pending | undefined, { bytes }: Pick<Pending, "bytes">, done: Done): readonly Done[] | undefined {
    const total = this.#bytes - (before?.bytes ?? 0) + bytes;
    if (total > pendingLimits.bytes || this.#calls >= pendingLimits.calls) {
      this.#refuse("what nodes store", "too much waits for the database", done);
      return undefined;
    }
    this.#bytes = total;
    this.#calls += 1;
    return [...(before?.done ?? []), done];
  }

  /** Ends a write, unless another one has replaced it. */
  #end<Item extends Pending>(items: Map<string, Item>, key: string, item: Item): void {
    if (items.get(key) === item) {
      items.delete(key);
      this.#bytes -= item.bytes;
      this.#calls -= item.done.length;
    }
  }

  get isPending(): boolean {
    return this.#writing !== undefined;
  }

  /** Resolves when all is written, at the latest after some seconds. */
  async settle(withinMs = settleMs): Promise<void> {
    if (this.#writing !== undefined) {
      await Promise.race([this.#writing, delay(withinMs, undefined, { ref: false })]);
    }
  }

  async #write(): Promise<void> {
    let hasFailed = false;
    while (!this.#isLost && this.#credentials.size + this.#settings.size > 0) {
      try {
        await this.#writeSettings();
        await this.#writeCredentials();
        hasFailed = false;
      } catch (error) {
        if (!hasFailed) {
          this.#warn(`what nodes store can't be written, which is retried: ${(error as Error).message}`);
        }
        hasFailed = true;
        await delay(retryMs, undefined, { ref: false });
      }
    }
    this.#writing = undefined;
  }

  async #writeSettings(): Promise<void> {
    const batch = [...this.#settings].slice(0, settingLimits.count);
    if (batch.length === 0) {
      return;
    }
    const { storage, token } = this.#options;
    const changes = batch.map(([name, { json }]) => ({ name, json }));
    const result = await storage.settings.write(changes, token);
    if (result === "fenced") {
      this.#lose();
      return;
    }
    for (const [name, pending] of batch) {
      this.#end(this.#settings, name, pending);
      pending.done.forEach((done) => {
        if (result === "full") {
          this.#refuse(
            `the setting ${JSON.stringify(name)}`,
            "the settings of all modules are too many or too large",
            done,
          );
        } else {
          done(undefined);
        }
      });
    }
  }

  async #writeCredentials(): Promise<void> {
    const [first] = this.#credentials.values();
    if (first === undefined) {
      return;
    }
    const count = await this.#takeTurn();
    const batch = [...this.#credentials].filter(([, { sinceSeq }]) => sinceSeq === first.sinceSeq).slice(0, count);
    const { storage, token } = this.#options;
    const sets = new Map(batch.map(([id, { set }]) => [id, set]));
    const results = await storage.writeCredentials({ sets, sinceSeq: first.sinceSeq, token });
    if (results === undefined) {
      this.#lose();
      return;
    }
    this.#left -= batch.length;
    for (const [id, pending] of batch) {
      this.#end(this.#credentials, id, pending);
      pending.done.forEach((done) => {
        if (results.get(id) === "full") {
          this.#refuse(describeNode(id), "nodes have stored too many", done);
        } else {
          done(results.get(id) === "written" ? undefined : superseded);
        }
      });
    }
  }

  /** Waits until credentials can be written, and returns of how many nodes. */
  async #takeTurn(): Promise<number> {
    const nowMs = performance.now();
    this.#left = Math.min(rate.burst, this.#left + ((nowMs - this.#leftAtMs) / 1_000) * rate.perSecond);
    this.#leftAtMs = nowMs;
    if (this.#left < 1) {
      await delay(((1 - this.#left) / rate.perSecond) * 1_000, undefined, { ref: false });
      return 1;
    }
    return Math.min(maxBatch, Math.floor(this.#left));
  }

  #lose(): void {
    this.#isLost = true;
    const pending = [...this.#credentials.values(), ...this.#settings.values()];
    this.#credentials.clear();
    this.#settings.clear();
    this.#bytes = 0;
    this.#calls = 0;
    pending.flatMap(({ done }) => done).forEach((done) => done(lost));
  }

  #refuse(name: string, problem: string, done: Done): void {
    const message = `${this.#options.redact(name, true)} can't be stored: ${problem}`;
    if (!this.#warned.has(message) && this.#warned.size < 1_000) {
      this.#warned.add(message);
      this.#warn(message);
    }
    done(problem);
  }

  #warn(message: string): void {
    this.#options.log({ level: "warn", message }, "runtime");
  }
}

function withChanges(
  settings: ReadonlyMap<string, string>,
  changes: readonly (readonly [name: string, change: Pick<PendingSetting, "json">])[],
): ReadonlyMap<string, string> {
  const changed = new Map(settings);
  for (const [name, { json }] of changes) {
    if (json === undefined) {
      changed.delete(name);
    } else {
      changed.set(name, json);
    }
  }
  return changed;
}

const lost = "another replica runs the flows";

/** Why credentials are not stored, if a deployment has determined others meanwhile. */
const superseded = "a deployment has other credentials for it";

function describeNode(id: string): string {
  return `the credentials of the node ${JSON.stringify(id)}`;
}

/** Undefined: it is not valid. Flows can forge it. */
export function parseNodeWrite(text: string): NodeWrite | undefined {
  const parsed = parseJson(text);
  const [id, kind, name, json, deployment] = Array.isArray(parsed) ? (parsed as unknown[]) : [];
  const isText = json === null || typeof json === "string";
  if (typeof id !== "number" || typeof name !== "string" || !isText || !name.isWellFormed()) {
    return undefined;
  }
  const write = { id, deployment: typeof deployment === "number" ? deployment : undefined };
  switch (kind) {
    case "credentials":
      return { ...write, ...parseCredentials(name, json ?? "{}") };
    case "setting":
      return { ...write, ...parseSetting(name, json ?? undefined) };
    default:
      return undefined;
  }
}

function parseCredentials(nodeId: string, json: string): WriteContent {
  const { idChars, names, nameChars, bytes } = credentialLimits;
  const invalid = (problem: string) =>
    ({ kind: "invalid", name: describeNode(nodeId.slice(0, idChars)), problem }) as const;
  if (nodeId === "" || nodeId.length > idChars || findKeyViolation(nodeId) !== undefined) {
    return invalid(`the id of a node has 1 to ${idChars} characters`);
  }
  if (Buffer.byteLength(json) > bytes) {
    return invalid(`they must have at most ${bytes / 1024} KiB`);
  }
  const value = parseJson(json);
  if (!isFields(value) || Array.isArray(value)) {
    return invalid("they must be an object");
  }
  const set = new Map(Object.entries(value as { [name: string]: CredentialValue }));
  if (set.size > names || set.keys().some((name) => name.length > nameChars)) {
    return invalid(`they must have at most ${names} names, of ${nameChars} characters`);
  }
  const violation = findJsonViolation(Object.fromEntries(set), 1);
  return violation === undefined
    ? { kind: "credentials", nodeId, set, bytes: json.length }
    : invalid(violation.message);
}

function parseSetting(name: string, json: string | undefined): WriteContent {
  const { nameBytes, valueBytes } = settingLimits;
  const invalid = (problem: string) =>
    ({ kind: "invalid", name: `the setting ${JSON.stringify(name.slice(0, nameBytes))}`, problem }) as const;
  if (name === "" || Buffer.byteLength(name) > nameBytes || findKeyViolation(name) !== undefined) {
    return invalid(`its name must have 1 to ${nameBytes} bytes`);
  }
  if (json !== undefined && Buffer.byteLength(json) > valueBytes) {
    return invalid(`it must have at most ${valueBytes / 1024} KiB of JSON`);
  }
  return json === undefined || parseJson(json) !== undefined
    ? { kind: "setting", name, json, bytes: json?.length ?? 0 }
    : invalid("it must be JSON");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
