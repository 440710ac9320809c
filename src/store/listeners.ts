export interface Listeners<T> {
  add(listener: (value: T) => void): Disposable;
  notify(value: T): void;
}

export function createListeners<T>(): Listeners<T> {
  const all = new Set<(value: T) => void>();
  return {
    add(listener) {
      // A function of its own, so that one listener that is added twice is two.
      const own = (value: T): void => listener(value);
      all.add(own);
      return { [Symbol.dispose]: () => void all.delete(own) };
    },
    notify(value) {
      for (const listener of all) {
        listener(value);
      }
    },
  };
}
