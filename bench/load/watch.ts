import { createCallTemplates, fillTemplate } from "./grpc.ts";
import { flags, frameTypes, openHttp2 } from "./http2.ts";

/** Open streams of grpc.health.v1.Health/Watch. */
export interface Watches {
  /** Resolves when each stream has received its second message, which must be NOT_SERVING. */
  untilNotified(): Promise<void>;
  close(): void;
}

const call = { path: "/grpc.health.v1.Health/Watch", headers: { "content-type": "application/grpc", te: "trailers" } };
/** A HealthCheckResponse with its envelope. */
const messageOf = (status: number): Buffer => Buffer.from([0, 0, 0, 0, 2, 8, status]);
const serving = messageOf(1);
const notServing = messageOf(2);

/** Resolves when each stream has received its first message. */
export async function openWatches(url: string, connections: number, streams: number): Promise<Watches> {
  const first = countDown(streams);
  const second = countDown(streams);
  // It can reject before it is awaited.
  second.reached.catch(() => {});
  const fail = (reason: string): void => {
    first.fail(reason);
    second.fail(reason);
  };
  const { first: firstCall, later } = createCallTemplates(url, call);
  const opened = await Promise.all(
    Array.from({ length: connections }, async (_, connection) => {
      const http2 = await openHttp2(
        url,
        {
          onFrame(type, flag, _stream, payload) {
            if (type === frameTypes.data && payload.equals(serving)) {
              first.count();
            } else if (type === frameTypes.data && payload.equals(notServing)) {
              second.count();
            } else if (type === frameTypes.data || (flag & flags.endStream) !== 0) {
              fail(`a watch ended, or received another message: ${payload.toString("hex")}`);
            }
          },
          onDrained: () => {},
          onFailure: fail,
        },
        // The service limits the watches per client address, so each connection uses another one.
        `127.0.0.${2 + connection}`,
      );
      for (let each = 0; each < streams / connections; each++) {
        const stream = http2.nextStream();
        http2.write(fillTemplate(stream === 1 ? firstCall : later, stream));
      }
      return http2;
    }),
  );
  await first.reached;
  return { untilNotified: () => second.reached, close: () => opened.forEach((each) => each.close()) };
}

function countDown(from: number): { reached: Promise<void>; count(): void; fail(reason: string): void } {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let left = from;
  return {
    reached: promise,
    count() {
      left--;
      if (left === 0) {
        resolve();
      }
    },
    fail: (reason) => reject(new Error(reason)),
  };
}
