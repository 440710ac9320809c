import { aFunction, oneOf, type OptionCheck, type OptionChecks } from "./check-options.ts";

export const adapterOptionChecks = {
  contextValues: aFunction,
  unknownPath: oneOf("reject", "pass"),
} as const satisfies OptionChecks;

/** Checks of the options of the fetch handler alone. */
export const fetchOptionChecks = { httpVersion: oneOf("1.1", "2") } as const satisfies OptionChecks;

const ofFastify: OptionCheck = { allowed: "as Fastify has it", accepts: () => true };

/** Checks of the options that Fastify itself reads from a plugin's options. */
export const fastifyOptionChecks = {
  prefix: ofFastify,
  logLevel: ofFastify,
  logSerializers: ofFastify,
} as const satisfies OptionChecks;
