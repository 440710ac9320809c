import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { apis } from "./apis.ts";
import type { Operation } from "./operation.ts";

export type ClientOptions = {
  readonly name: string;
  readonly protocol: keyof typeof apis;
  /** The replicas. */
  readonly urls: readonly string[];
  /** The active revision. */
  readonly base: string;
  /** The number of its compare-and-swap deployments. Forced ones and reads are made between them. */
  readonly comparisons: number;
  /** Whether compare-and-swap deployments are sent with the revision that they expect; if not, they are forced. */
  readonly compares: boolean;
};

const protocols = ["REST", "Connect", "gRPC"] as const;

type Options = Omit<ClientOptions, "name" | "protocol" | "comparisons"> & {
  readonly clients: number;
  /** Of all clients together. */
  readonly comparisons: number;
  /** Ends the clients before that, each after its operations in progress. */
  readonly until?: AbortSignal | undefined;
  readonly onOperation?: ((operation: Operation) => void) | undefined;
};

type Watch = Pick<Options, "until" | "onOperation">;

/** Runs client processes, which begin together, and resolves with all of their operations. */
export async function runClients(options: Options): Promise<Operation[]> {
  const { clients: count, comparisons, until, onOperation, ...others } = options;
  await using stack = new AsyncDisposableStack();
  const clients = Array.from({ length: count }, (_, index) =>
    stack.use(
      openClient({
        ...others,
        name: `client ${index}`,
        protocol: protocols[index % protocols.length] ?? "REST",
        comparisons: Math.ceil(comparisons / count),
      }),
    ),
  );
  await Promise.all(clients.map(({ ready }) => ready));
  const operations = await Promise.all(clients.map((client) => client.run({ until, onOperation })));
  return operations.flat();
}

type Client = AsyncDisposable & {
  readonly ready: Promise<unknown>;
  /** Resolves with its operations when it has ended. */
  run(watch: Watch): Promise<Operation[]>;
};

function openClient(options: ClientOptions): Client {
  const child = fork(new URL("fixtures/client.ts", import.meta.url), [JSON.stringify(options)]);
  const exited = once(child, "exit");
  return {
    ready: Promise.race([once(child, "message"), exited.then(() => reject(child))]),
    async run({ until, onOperation }) {
      const operations: Operation[] = [];
      child.on("message", (operation: Operation) => {
        operations.push(operation);
        onOperation?.(operation);
      });
      until?.addEventListener("abort", () => void (child.connected && child.send("end")));
      child.send("start");
      await exited;
      return child.exitCode === 0 ? operations : reject(child);
    },
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}

function reject({ exitCode, signalCode }: ChildProcess): never {
  throw new Error(`a client has ended with ${exitCode ?? signalCode}`);
}
