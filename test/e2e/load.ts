import { spawn } from "node:child_process";
import { Agent } from "node:http";
import { Agent as SecureAgent } from "node:https";
import { createInterface } from "node:readline";
import { create, type DescMethodUnary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { FlowsService, retryInterceptor, SettingsService } from "@flowgate/client";

/** The outcomes of calls, by client. */
export type Tally = { ok: number; readonly failed: string[] };

/** Continuous calls, until they are stopped. */
export type Load = {
  readonly tallies: Readonly<Record<string, Tally>>;
  /** Resolves when all calls in flight have ended. */
  stop(): Promise<void>;
};

/** The number of concurrent calls of each kind. */
export const callsAtOnce = {
  "grpc-js": 30,
  "our client, gRPC": 22,
  "our client, deployments": 2,
  "our client, Connect over HTTP/2": 10,
  "our client, Connect over HTTP/1": 16,
  "curl with keep-alive": 20,
} as const;

export const streamsAtOnce = { "watches of grpc-js": 10, "watches of our client": 10 } as const;

type Name = keyof typeof callsAtOnce | keyof typeof streamsAtOnce;

/** Calls the service at this port with various clients; `ca` has signed its certificate, if it has TLS. */
export function startLoad(port: number, ca?: string): Load {
  const baseUrl = `${ca === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  const trust = ca === undefined ? {} : { ca };
  const stopping = new AbortController();
  const tallies = {} as Record<Name, Tally>;
  const clients = new Set<Disposable>();
  const running: Promise<void>[] = [];

  const repeat = (name: Name, count: number, once: () => Promise<void>): void => {
    const tally: Tally = { ok: 0, failed: [] };
    tallies[name] = tally;
    const loop = async (): Promise<void> => {
      while (!stopping.signal.aborted) {
        try {
          await once();
          tally.ok++;
        } catch (error) {
          if (!stopping.signal.aborted) {
            tally.failed.push(describe(error));
            // Avoids a busy loop after the service has stopped.
            await new Promise(setImmediate);
          }
        }
      }
    };
    running.push(...Array.from({ length: count }, loop));
  };
  const calls = (name: keyof typeof callsAtOnce, once: () => Promise<void>) => repeat(name, callsAtOnce[name], once);

  const channel = ca === undefined ? credentials.createInsecure() : credentials.createSsl(Buffer.from(ca));
  // Node rejects an IP address as the name of a TLS server.
  const grpcJs = new Client(`127.0.0.1:${port}`, channel, { "grpc.ssl_target_name_override": "localhost" });
  clients.add({ [Symbol.dispose]: () => grpcJs.close() });
  calls("grpc-js", () => callGrpcJs(grpcJs, SettingsService.method.getSettings));
  repeat("watches of grpc-js", streamsAtOnce["watches of grpc-js"], () => watchGrpcJs(grpcJs, stopping.signal));

  const interceptors: Interceptor[] = [retryInterceptor()];
  const grpc = createGrpcTransport({ baseUrl, interceptors, nodeOptions: trust });
  const read = (transport: Transport) => {
    const settings = createClient(SettingsService, transport);
    const flows = createClient(FlowsService, transport);
    let count = 0;
    return async () => void (await (count++ % 2 === 0 ? settings.getSettings({}) : flows.getFlows({})));
  };
  calls("our client, gRPC", read(grpc));
  calls("our client, deployments", async () => {
    await createClient(FlowsService, grpc).setFlows({ flows: [{ id: "t", type: "tab" }] });
  });
  calls(
    "our client, Connect over HTTP/2",
    read(createConnectTransport({ baseUrl, httpVersion: "2", interceptors, nodeOptions: trust })),
  );
  const agent = new (ca === undefined ? Agent : SecureAgent)({ keepAlive: true, ...trust });
  clients.add({ [Symbol.dispose]: () => agent.destroy() });
  const nodeOptions = { agent };
  calls(
    "our client, Connect over HTTP/1",
    read(createConnectTransport({ baseUrl, httpVersion: "1.1", interceptors, nodeOptions })),
  );
  repeat("watches of our client", streamsAtOnce["watches of our client"], () =>
    watch(createClient(Health, grpc).watch({}, { signal: stopping.signal })),
  );

  const ofCurl: Tally = { ok: 0, failed: [] };
  tallies["curl with keep-alive"] = ofCurl;
  running.push(runCurls(baseUrl, callsAtOnce["curl with keep-alive"], ofCurl, stopping.signal));

  return {
    tallies,
    async stop() {
      stopping.abort();
      await Promise.all(running);
      for (const client of clients) {
        client[Symbol.dispose]();
      }
    },
  };
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const asIs = (bytes: Buffer): Buffer => bytes;

function callGrpcJs(client: Client, method: DescMethodUnary): Promise<void> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      `/${method.parent.typeName}/${method.name}`,
      asIs,
      asIs,
      Buffer.from(toBinary(method.input, create(method.input))),
      (error: ServiceError | null) => (error === null ? resolve() : reject(error)),
    );
  });
}

/** One watch, which must end like that of a draining service: with NOT_SERVING, then UNAVAILABLE. */
async function watch(statuses: AsyncIterable<{ status: Status }>): Promise<void> {
  let lastStatus: Status | undefined;
  try {
    for await (const { status } of statuses) {
      lastStatus = status;
    }
  } catch (error) {
    if (ConnectError.from(error).code !== Code.Unavailable || lastStatus !== Status.NOT_SERVING) {
      throw new Error(`after the status ${lastStatus}: ${describe(error)}`, { cause: error });
    }
    return;
  }
  throw new Error("it ended without an error");
}

function watchGrpcJs(client: Client, stopping: AbortSignal): Promise<void> {
  const call = client.makeServerStreamRequest(
    `/${Health.typeName}/Watch`,
    asIs,
    // Its only field is the status.
    (bytes: Buffer) => ({ status: (bytes[1] ?? 0) as Status }),
    Buffer.alloc(0),
  );
  const stop = (): void => call.cancel();
  stopping.addEventListener("abort", stop);
  const statuses = async function* () {
    try {
      yield* call as unknown as AsyncIterable<{ status: Status }>;
    } catch (error) {
      const { code, details } = error as { code: Code; details: string };
      throw new ConnectError(details, code);
    } finally {
      stopping.removeEventListener("abort", stop);
    }
  };
  return watch(statuses());
}

/** The number of URLs per curl process, which lasts several restarts; each line of its output is one call. */
const urlsOfCurl = 20_000;

async function runCurls(url: string, atOnce: number, tally: Tally, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    const silently = ["--silent", "--no-progress-meter"];
    const child = spawn(
      "curl",
      ["--config", "-", "--insecure", "--http1.1", ...silently, "--parallel", "--parallel-max", `${atOnce}`],
      { stdio: ["pipe", "ignore", "pipe"] },
    );
    const stop = (): void => void child.kill();
    stopping.addEventListener("abort", stop);
    child.stdin.on("error", () => {});
    child.stdin.end(
      // On stderr, which curl does not buffer: on stdout, calls would be known 800 at a time.
      `write-out = "%{stderr}%{http_code} %{errormsg}\\n"\n` +
        `url = "${url}/settings"\noutput = "/dev/null"\n`.repeat(urlsOfCurl),
    );
    for await (const line of createInterface(child.stderr)) {
      if (line.startsWith("200")) {
        tally.ok++;
      } else if (!stopping.aborted) {
        tally.failed.push(line);
      }
    }
    stopping.removeEventListener("abort", stop);
  }
}
