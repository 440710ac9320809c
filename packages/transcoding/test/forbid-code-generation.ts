// Has the transcoder interpret what it compiles otherwise: `new Function` throws for it, as in a process with the flag
// --disallow-code-generation-from-strings. Under the flag itself, Fastify's router does not work, which most tests need.
globalThis.Function = new Proxy(Function, {
  construct(target, args, newTarget) {
    if (new Error().stack?.includes("/packages/transcoding/src/json/compile.ts")) {
      throw new EvalError("Code generation from strings disallowed for this context");
    }
    return Reflect.construct(target, args, newTarget) as object;
  },
});
