export interface Listeners<T> {
  /** Disposing removes the listener. */
  add(listener: (value: T) => void): Disposable;
  notify(value: T): void;
}

export function createListeners<T>(): Listeners<T> {
  const registered = new Set<(value: T) => void>();
  return {
    add(listener) {
      // A new function, so that a listener that is added twice is called twice and disposed separately.
      const entry = (value: T): void => listener(value);
      registered.add(entry);
      return { [Symbol.dispose]: () => void registered.delete(entry) };
    },
    notify(value) {
      for (const listener of registered) {
        listener(value);
      }
    },
  };
}
