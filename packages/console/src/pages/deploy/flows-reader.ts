import type { Target } from "./combine.ts";
import workerUrl from "./flows-worker.ts?worker&url";
import type { Prepared, Summary, WorkerReply, WorkerRequest } from "./flows-worker.ts";
import { SourceError, type SourceProblem } from "./source-problem.ts";

/** Reads flows in a worker, which keeps those that it has read last. Its methods throw a SourceError for what is wrong with them. */
export class FlowsReader implements Disposable {
  #worker: Worker | undefined;

  read(input: string | Blob): Promise<Summary> {
    return this.#ask({ action: "read", input }) as Promise<Summary>;
  }

  /** Makes the flows of a deployment of them. */
  combine(target: Target): Promise<Prepared> {
    return this.#ask({ action: "combine", target }) as Promise<Prepared>;
  }

  /** Where the value is that the service has rejected, if its message says so. */
  locate(message: string): Promise<SourceProblem | undefined> {
    return this.#ask({ action: "locate", message }) as Promise<SourceProblem | undefined>;
  }

  async #ask(request: WorkerRequest): Promise<unknown> {
    this.#worker ??= new Worker(trustedUrl(workerUrl), { type: "module" });
    const worker = this.#worker;
    const { port1, port2 } = new MessageChannel();
    const reply = await new Promise<WorkerReply>((resolve) => {
      port1.addEventListener("message", ({ data }: MessageEvent<WorkerReply>) => resolve(data), { once: true });
      port1.start();
      worker.addEventListener("error", ({ message }) => resolve({ message }), { once: true });
      worker.postMessage(request, [port2]);
    });
    port1.close();
    if ("problems" in reply) {
      throw new SourceError(reply.problems);
    }
    if ("message" in reply) {
      throw new Error(reply.message);
    }
    return reply.value;
  }

  [Symbol.dispose](): void {
    this.#worker?.terminate();
    this.#worker = undefined;
  }
}

/** Not among TypeScript's types of browsers; absent in older ones. */
declare const trustedTypes:
  | undefined
  | {
      createPolicy: (
        name: string,
        rules: { readonly createScriptURL: (url: string) => string },
      ) => { createScriptURL: (url: string) => string };
    };

let policy: ReturnType<NonNullable<typeof trustedTypes>["createPolicy"]> | undefined;

/** The service's Content Security Policy permits this policy alone to name scripts: the one of the worker. */
function trustedUrl(url: string): string {
  if (typeof trustedTypes === "undefined") {
    return url;
  }
  policy ??= trustedTypes.createPolicy("flowgate-worker", {
    createScriptURL(given) {
      if (given !== workerUrl) {
        throw new TypeError("this is not the URL of the worker");
      }
      return given;
    },
  });
  return policy.createScriptURL(url);
}
