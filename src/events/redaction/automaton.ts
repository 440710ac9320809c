/**
 * Byte strings that are searched for all at once, in time that does not depend on their number: Aho and Corasick, "Efficient string
 * matching", 1975. A state is the prefix of a pattern, 0 is the empty one. Takes 14 bytes for each byte of the patterns, in
 * shared memory, so that threads exchange it without a copy.
 */
export type Automaton = {
  /** The states after the empty one, by byte; 0: none. */
  readonly root: Numbers;
  /** The last byte of each state. The states of a pattern that no pattern before it has follow each other. */
  readonly bytes: Bytes;
  /** The length of each state. There is one more, 0, at the end. */
  readonly depths: Numbers;
  /** The longest proper suffix of each state that is a state too. */
  readonly fails: Numbers;
  /** The length of the longest pattern that each state ends with; 0: none. */
  readonly matches: Numbers;
  /** True if a state is followed by other ones than the next one. */
  readonly forks: Bytes;
  /** The keys, `state * 256 + byte`, in ascending order, and the states that follow. */
  readonly forkKeys: Numbers;
  readonly forkStates: Numbers;
};

type Bytes = Uint8Array<SharedArrayBuffer>;
type Numbers = Uint32Array<SharedArrayBuffer>;

/** `forkKeys` have 32 bits. */
const maxStates = 2 ** 24;

/** The patterns must not be empty. Linear in their bytes, but for sorting them. Patterns that would need too many states are left out, the last ones first. */
export function compileAutomaton(patterns: readonly Uint8Array[]): Automaton {
  const sorted = patterns.toSorted((one, other) => Buffer.compare(one, other));
  const count = countStates(sorted);
  const states = {
    bytes: allocateBytes(count),
    depths: allocateNumbers(count + 1),
    fails: allocateNumbers(count),
    matches: allocateNumbers(count),
    forks: allocateBytes(count),
    root: allocateNumbers(256),
  };
  const parents = new Uint32Array(count);
  const { bytes, depths, matches, forks, root } = states;
  const forked: number[] = [];
  /** The states of the current pattern by their length. */
  const path = new Uint32Array(sorted.reduce((max, { length }) => Math.max(max, length), 0) + 1);
  let last = 0;
  let before: Uint8Array = empty;
  for (const pattern of sorted) {
    let depth = commonLength(before, pattern);
    if (last + pattern.length - depth >= count) {
      break;
    }
    for (; depth < pattern.length; depth += 1) {
      const parent = path[depth] as number;
      const byte = pattern[depth] as number;
      last += 1;
      bytes[last] = byte;
      depths[last] = depth + 1;
      parents[last] = parent;
      path[depth + 1] = last;
      if (parent === 0) {
        root[byte] = last;
      } else if (parent !== last - 1) {
        forks[parent] = 1;
        forked.push(last);
      }
    }
    matches[path[depth] as number] = depth;
    before = pattern;
  }
  const forkKeys = allocateNumbers(forked.length);
  const forkStates = allocateNumbers(forked.length);
  const keyOf = (state: number): number => (parents[state] as number) * 256 + (bytes[state] as number);
  forked.forEach((state, index) => (forkKeys[index] = keyOf(state)));
  forkKeys.sort();
  forked.forEach((state) => (forkStates[findFork(forkKeys, keyOf(state))] = state));
  const automaton = { ...states, forkKeys, forkStates };
  setFails(automaton, parents);
  return automaton;
}

/** Follows a byte: the longest suffix that is a state. */
export function step(automaton: Automaton, state: number, byte: number): number {
  let from = state;
  while (from !== 0) {
    const next = follow(automaton, from, byte);
    if (next !== 0) {
      return next;
    }
    from = automaton.fails[from] as number;
  }
  return automaton.root[byte] as number;
}

/** The state with one more byte; 0: there is none. */
function follow({ bytes, depths, forks, forkKeys, forkStates }: Automaton, state: number, byte: number): number {
  const next = state + 1;
  if (bytes[next] === byte && depths[next] === (depths[state] as number) + 1) {
    return next;
  }
  if (forks[state] === 0) {
    return 0;
  }
  const key = state * 256 + byte;
  const found = findFork(forkKeys, key);
  return forkKeys[found] === key ? (forkStates[found] as number) : 0;
}

/** Returns the index of the key, or the index at which it would be inserted. */
function findFork(keys: Numbers, key: number): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as number) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Proceeds from the shortest states to the longest, since a state needs the results of shorter ones. */
function setFails(automaton: Automaton, parents: Uint32Array): void {
  const { bytes, depths, fails, matches } = automaton;
  for (const state of orderByDepth(depths)) {
    const parent = parents[state] as number;
    if (parent !== 0) {
      const fail = step(automaton, fails[parent] as number, bytes[state] as number);
      fails[state] = fail;
      matches[state] ||= matches[fail] as number;
    }
  }
}

/** All states but 0. */
function orderByDepth(depths: Numbers): Uint32Array {
  const count = depths.length - 1;
  const starts: number[] = [];
  for (let state = 1; state < count; state += 1) {
    const depth = depths[state] as number;
    starts[depth] = (starts[depth] ?? 0) + 1;
  }
  let sum = 0;
  for (let depth = 1; depth < starts.length; depth += 1) {
    const here = starts[depth] ?? 0;
    starts[depth] = sum;
    sum += here;
  }
  const order = new Uint32Array(sum);
  for (let state = 1; state < count; state += 1) {
    const depth = depths[state] as number;
    order[starts[depth] as number] = state;
    starts[depth] = (starts[depth] as number) + 1;
  }
  return order;
}

const empty = new Uint8Array();

function countStates(sorted: readonly Uint8Array[]): number {
  let count = 1;
  let before: Uint8Array = empty;
  for (const pattern of sorted) {
    count += pattern.length - commonLength(before, pattern);
    before = pattern;
  }
  return Math.min(count, maxStates);
}

function commonLength(one: Uint8Array, other: Uint8Array): number {
  const max = Math.min(one.length, other.length);
  let length = 0;
  while (length < max && one[length] === other[length]) {
    length += 1;
  }
  return length;
}

function allocateBytes(length: number): Bytes {
  return new Uint8Array(new SharedArrayBuffer(length));
}

function allocateNumbers(length: number): Numbers {
  return new Uint32Array(new SharedArrayBuffer(length * Uint32Array.BYTES_PER_ELEMENT));
}
