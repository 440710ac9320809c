import { join } from "node:path";
import { build, type Rolldown } from "vite";

type Handler = (request: Request) => Response | Promise<Response>;

/** Bundles a program with the fetch handler as for an edge runtime. */
export async function bundleForEdge(
  entry = "fixtures/edge.ts",
  { minify = false } = {},
): Promise<{ readonly code: string; readonly modules: readonly string[] }> {
  const output = (await build({
    configFile: false,
    logLevel: "silent",
    build: { write: false, minify, lib: { entry: join(import.meta.dirname, entry), name: "edge", formats: ["iife"] } },
  })) as Rolldown.RolldownOutput[];
  const [chunk] = output.flatMap((each) => each.output);
  if (chunk?.type !== "chunk") {
    throw new Error("there is no bundle");
  }
  return { code: chunk.code, modules: chunk.moduleIds };
}

/** Evaluates the bundle without the globals of Node, and without code generation, which edge runtimes do not allow. */
export async function openEdgeHandler(): Promise<Handler> {
  const { code } = await bundleForEdge();
  const hidden = ["Buffer", "process", "global", "require", "module", "exports", "setImmediate"];
  const body = `"use strict"; ${code}; return edge.handler;`;
  // oxlint-disable-next-line typescript/no-implied-eval -- Its parameters hide globals.
  const evaluate = new Function("Function", ...hidden, body) as (constructor: unknown) => Handler;
  return evaluate(function forbidden() {
    throw new EvalError("Code generation from strings disallowed for this context");
  });
}
