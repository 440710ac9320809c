import type { Logger } from "pino";
import { programFile } from "../../base/program-file.ts";
import { type Thread, openThread } from "@flowgate/base/thread";
import { type CredentialSets, type CredentialSet, changedCredentials, isSameSet } from "@flowgate/flows";
import { type Redaction, maxSyncChars } from "@flowgate/runtime";
import type { FlowStore } from "../../store/flow-store.ts";
import type { Automaton } from "./automaton.ts";
import { Redactor, compileValues, valuesOf } from "./redactor.ts";
import type { RedactionCall, RedactionReply } from "./thread.ts";

/** Compiling as many characters of values takes a few milliseconds. More are compiled in the thread. */
const maxSyncValueChars = 128 * 1024;

/** The maximum number of known former credential sets that nodes have stored, and of their characters. */
const maxWritten = { sets: 100, chars: 512 * 1024 };

export type Secrets = Redaction & AsyncDisposable;

/**
 * Tracks the credentials of the active revision, of the one before, of the last two deployments sent to flows, and the
 * credentials that nodes have stored last.
 */
export async function openSecrets(
  store: Pick<FlowStore, "active" | "findCredentials" | "unclaimedCredentials" | "onRevision" | "onCredentials">,
  log: Logger,
): Promise<Secrets> {
  const { credentials, parent } = store.active();
  const none: CredentialSets = new Map();
  let [active, before] = [credentials, none];
  let [received, receivedBefore] = [none, none];
  await using resources = new AsyncDisposableStack();
  const thread = resources.use(openRedactionThread(log));
  let redactor = new Redactor([]);
  const combine = (): void => {
    redactor = new Redactor([...revisions.automata, ...ofNodes.automata]);
  };
  const revisions = new CompiledValues(thread, combine);
  const ofNodes = new CompiledValues(thread, combine);
  const update = (): Promise<void> | undefined =>
    revisions.replace(valuesOf(new Set([active, before, received, receivedBefore])));
  const written = new WrittenSets();
  const learnWritten = (sets: CredentialSets): void => {
    if (written.add(sets)) {
      void ofNodes.replace(written.values());
    }
  };
  resources.use(
    store.onRevision(({ revision }) => {
      if (revision.credentials !== active) {
        before = active;
        active = revision.credentials;
        void update();
      }
    }),
  );
  resources.use(
    store.onCredentials((next) => {
      // Replaced credentials can still be in texts.
      const replaced = changedCredentials(next, active);
      learnWritten(new Map(active.entries().filter(([id]) => replaced.has(id))));
      active = next;
      void update();
    }),
  );
  before = (parent === undefined ? undefined : await store.findCredentials(parent)) ?? none;
  learnWritten(store.unclaimedCredentials());
  await update();
  const opened = resources.move();
  return {
    redact: (text, isCut) => redactor.redact(text, isCut),
    async redactAll(texts, isCut) {
      return countChars(texts) <= maxSyncChars
        ? redactor.redactAll(texts, isCut)
        : ((await thread.redact(redactor.automata, texts, isCut)) ?? redactor.redactAll(texts, isCut));
    },
    learn(next) {
      if (changedCredentials(received, next).size > 0) {
        receivedBefore = received;
        received = next;
      }
      return update();
    },
    learnWritten,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Values, with their compiled form. */
class CompiledValues {
  automata: readonly Automaton[] = [];
  readonly #thread: RedactionThread;
  readonly #onChange: () => void;
  #values: ReadonlySet<string> = new Set();
  /** The last compiled values. Missing ones are in another automaton, or not known yet. */
  #compiled: { readonly automaton: Automaton; readonly values: ReadonlySet<string> } | undefined;
  #compilation: Promise<void> | undefined;

  constructor(thread: RedactionThread, onChange: () => void) {
    this.#thread = thread;
    this.#onChange = onChange;
  }

  /** Resolves when the values are known; undefined: they are already. */
  replace(values: ReadonlySet<string>): Promise<void> | undefined {
    if (!isSame(values, this.#values)) {
      this.#values = values;
      if (countChars(values) <= maxSyncValueChars) {
        this.#compiled = { values, automaton: compileValues(values) };
      } else {
        this.#compilation ??= this.#compile();
      }
      this.#apply();
    }
    return this.#isComplete() ? undefined : this.#compilation;
  }

  async #compile(): Promise<void> {
    while (this.#compiled?.values !== this.#values) {
      const values = this.#values;
      const automaton = (await this.#thread.compile(values)) ?? compileValues(values);
      if (countChars(this.#values) > maxSyncValueChars) {
        this.#compiled = { values, automaton };
        this.#apply();
      }
    }
    this.#compilation = undefined;
  }

  /** Uses the compiled values, with the missing ones if they are few. */
  #apply(): void {
    const compiled = this.#compiled === undefined ? [] : [this.#compiled.automaton];
    const missing = this.#missing();
    if (countChars(missing) <= maxSyncValueChars) {
      this.automata = missing.size === 0 ? compiled : [...compiled, compileValues(missing)];
      this.#onChange();
    }
  }

  #isComplete(): boolean {
    return countChars(this.#missing()) <= maxSyncValueChars;
  }

  #missing(): ReadonlySet<string> {
    return this.#values.difference(this.#compiled?.values ?? new Set());
  }
}

/** The credential sets that nodes have stored last. */
class WrittenSets {
  #sets: readonly (readonly [id: string, set: NonNullable<CredentialSet>])[] = [];

  /** True if they were not known. */
  add(sets: CredentialSets): boolean {
    const isKnown = ([id, set]: readonly [string, CredentialSet]): boolean =>
      this.#sets.some(([other, known]) => other === id && isSameSet(known, set));
    const added = [...sets].slice(-maxWritten.sets).filter((entry) => !isKnown(entry));
    this.#sets = [...this.#sets, ...added].slice(-maxWritten.sets);
    return added.length > 0;
  }

  /** Their values, without the oldest ones if they are too long together. */
  values(): ReadonlySet<string> {
    const values = new Set<string>();
    let chars = 0;
    for (const entry of this.#sets.toReversed()) {
      for (const value of valuesOf([new Map([entry])])) {
        chars += values.has(value) ? 0 : value.length;
        if (chars > maxWritten.chars) {
          return values;
        }
        values.add(value);
      }
    }
    return values;
  }
}

type RedactionThread = AsyncDisposable & {
  /** Undefined: the thread has failed. */
  compile(values: ReadonlySet<string>): Promise<Automaton | undefined>;
  redact(
    automata: readonly Automaton[],
    texts: ReadonlySet<string>,
    isCut: boolean,
  ): Promise<ReadonlyMap<string, string> | undefined>;
};

function openRedactionThread(log: Logger): RedactionThread {
  const thread: Thread<RedactionCall, RedactionReply> = openThread({
    name: "flowgate redaction",
    entry: programFile("events/redaction/thread"),
    data: undefined,
    onUnexpectedExit: (err) => log.error({ err }, "the thread that redacts texts exited"),
  });
  const call = async (message: RedactionCall): Promise<RedactionReply | undefined> => {
    try {
      return await thread.call(message);
    } catch (err) {
      log.error({ err }, `the thread for the values of credentials could not ${message.kind}`);
      return undefined;
    }
  };
  return {
    async compile(values) {
      const reply = await call({ kind: "compile", values });
      return reply?.kind === "compiled" ? reply.automaton : undefined;
    },
    async redact(automata, texts, isCut) {
      const reply = await call({ kind: "redact", automata, texts, isCut });
      return reply?.kind === "redacted" ? reply.texts : undefined;
    },
    [Symbol.asyncDispose]: () => thread[Symbol.asyncDispose](),
  };
}

function isSame(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return one.size === other.size && one.isSubsetOf(other);
}

function countChars(texts: ReadonlySet<string>): number {
  let count = 0;
  for (const { length } of texts) {
    count += length;
  }
  return count;
}
