/**
 * Compiles a function of its own for one message type. A function that serves all types, by tables of their fields, costs
 * several times as much: V8 makes an access fast where the property it names is always the same.
 *
 * `body` is made of descriptors alone, never of what a request holds: names stand in it as `literal` gives them, and
 * values as `given`, by their names. Needs a process that may compile code at run time, as Fastify does too.
 */
export function compile(given: Readonly<Record<string, unknown>>, body: string): unknown {
  // oxlint-disable-next-line no-implied-eval -- see above
  const make = new Function(...Object.keys(given), `"use strict"; ${body}`) as (...values: unknown[]) => unknown;
  return make(...Object.values(given));
}

/** A string as it stands in code. */
export function literal(text: string): string {
  return JSON.stringify(text);
}
