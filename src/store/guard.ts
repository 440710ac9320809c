import { FlowgateError } from "@flowgate/flows/errors";
import type { Store } from "./store.ts";

type Parts = Pick<
  Store,
  "flows" | "modules" | "proposals" | "desired" | "tokens" | "audit" | "documents" | "context" | "settings" | "logins"
>;

export type Operation = (...parameters: unknown[]) => Promise<unknown>;

/** The names of the methods that don't return a promise. */
type SynchronousName<Part> = {
  [Name in keyof Part]: Part[Name] extends (...parameters: never[]) => Promise<unknown> ? never : Name;
}[keyof Part];

/** The methods that read memory only. The compiler reports missing ones. */
const synchronous: Readonly<Record<{ [Name in keyof Parts]: SynchronousName<Parts[Name]> }[keyof Parts], true>> = {
  active: true,
  current: true,
  isCurrent: true,
  onChange: true,
  onCredentials: true,
  onRevision: true,
  onRevoked: true,
  unclaimedCredentials: true,
};

/**
 * Returns the store with each of its operations replaced by the result of `wrap`. `name` combines part and method, such
 * as `flows.commit`.
 */
export function wrapStore<S extends Parts>(store: S, wrap: (operation: Operation, name: string) => Operation): S {
  const wrapPart = <Name extends keyof Parts>(name: Name): Parts[Name] =>
    wrapMethods(store[name], (operation, method) => wrap(operation, `${name}.${method}`));
  return {
    ...store,
    flows: wrapPart("flows"),
    proposals: wrapPart("proposals"),
    modules: wrapPart("modules"),
    desired: wrapPart("desired"),
    tokens: wrapPart("tokens"),
    audit: wrapPart("audit"),
    documents: wrapPart("documents"),
    context: wrapPart("context"),
    settings: wrapPart("settings"),
    logins: wrapPart("logins"),
  };
}

/** As `wrapStore`, for one part. `name` is the method's. */
export function wrapMethods<Part extends object>(
  part: Part,
  wrap: (operation: Operation, name: string) => Operation,
): Part {
  const methods: Record<string, Operation> = {};
  // A program may pass a store whose parts are instances of classes.
  for (let object: object = part; object !== Object.prototype; object = Object.getPrototypeOf(object) as object) {
    for (const name of Object.getOwnPropertyNames(object)) {
      const method: unknown = part[name as keyof Part];
      if (typeof method === "function" && name !== "constructor") {
        const operation = method.bind(part) as Operation;
        methods[name] ??= name in synchronous ? operation : wrap(operation, name);
      }
    }
  }
  return methods as Part;
}

export class Operations {
  readonly #inProgress = new Set<Promise<unknown>>();
  readonly #toError: (error: unknown) => unknown;
  #isClosed = false;

  /** `toError` converts the errors of operations. */
  constructor(toError: (error: unknown) => unknown) {
    this.#toError = toError;
  }

  async run<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#isClosed) {
      throw new FlowgateError("unavailable", "the store is closed");
    }
    const result = operation();
    this.#inProgress.add(result);
    try {
      return await result;
    } catch (error) {
      throw this.#toError(error);
    } finally {
      this.#inProgress.delete(result);
    }
  }

  isClosed(): boolean {
    return this.#isClosed;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#inProgress);
  }
}
