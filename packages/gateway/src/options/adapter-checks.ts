import { aFunction, oneOf, type OptionCheck, type OptionChecks } from "./check-options.ts";

export const adapterOptionChecks = {
  contextValues: aFunction,
  unknownPath: oneOf("reject", "pass"),
} as const satisfies OptionChecks;

/** Those of the fetch handler alone. */
export const fetchOptionChecks = { httpVersion: oneOf("1.1", "2") } as const satisfies OptionChecks;

const ofFastify: OptionCheck = { allowed: "as Fastify has it", accepts: () => true };

/** Those that Fastify itself reads from the options of a plugin. */
export const fastifyOptionChecks = {
  prefix: ofFastify,
  logLevel: ofFastify,
  logSerializers: ofFastify,
} as const satisfies OptionChecks;
