// Has the gateway interpret what it compiles otherwise: `new Function` throws for it, as in a process with the flag
// --disallow-code-generation-from-strings. Under the flag itself, Fastify's router does not work, which most tests need.
const forbidding = Symbol.for("flowgate.forbid-code-generation");

// The setup runs for each test file, of which a process runs several.
if (!(forbidding in globalThis)) {
  Object.assign(globalThis, { [forbidding]: true });
  globalThis.Function = new Proxy(Function, {
    construct(target, args, newTarget) {
      if (callerOf().endsWith("/packages/gateway/src/json/compile.ts")) {
        throw new EvalError("Code generation from strings disallowed for this context");
      }
      return Reflect.construct(target, args, newTarget) as object;
    },
  });
}

/** The file that called `new Function`. Source maps, which vitest applies to a stack, would take most of the time. */
function callerOf(): string {
  const original: unknown = Reflect.get(Error, "prepareStackTrace");
  Error.prepareStackTrace = (_error, [, , caller]) => caller?.getFileName() ?? "";
  const file = new Error().stack as string;
  Reflect.set(Error, "prepareStackTrace", original);
  return file;
}
