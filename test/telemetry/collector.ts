import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { buffer } from "node:stream/consumers";

export type CollectedSpan = {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: the span is a root. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  /** 1: internal, 2: server. */
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 0: unset, 2: error. */
  readonly status: number;
  readonly resource: Readonly<Record<string, unknown>>;
};

/** An OpenTelemetry collector that accepts OTLP over HTTP, in protobuf. */
export type Collector = AsyncDisposable & {
  readonly endpoint: string;
  readonly spans: readonly CollectedSpan[];
  readonly requests: readonly {
    readonly path: string;
    readonly headers: IncomingHttpHeaders;
    readonly bytes: Buffer;
  }[];
};

/** `respond` replaces the default response of the collector. */
export async function openCollector(respond?: (response: ServerResponse) => void): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const requests: Collector["requests"][number][] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const bytes = await buffer(request);
    requests.push({ path: request.url ?? "", headers: request.headers, bytes });
    if (respond !== undefined) {
      respond(response);
      return;
    }
    spans.push(...readSpans(bytes));
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
  };
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`,
    spans,
    requests,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

// opentelemetry/proto/collector/trace/v1/trace_service.proto and those that it imports.

type Fields = ReadonlyMap<number, readonly unknown[]>;

function readFields(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields = new Map<number, unknown[]>();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    fields.set(number, [...(fields.get(number) ?? []), readValue(reader, type)]);
  }
  return fields;
}

function readValue(reader: BinaryReader, type: WireType): unknown {
  switch (type) {
    case WireType.LengthDelimited:
      return reader.bytes();
    case WireType.Bit64:
      return reader.fixed64();
    case WireType.Bit32:
      return reader.fixed32();
    default:
      return reader.int64();
  }
}

const messages = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map((bytes) => readFields(bytes as Uint8Array));
const bytesOf = (fields: Fields, number: number): Buffer =>
  Buffer.from((fields.get(number)?.[0] as Uint8Array | undefined) ?? []);
const textOf = (fields: Fields, number: number): string => bytesOf(fields, number).toString();
const numberOf = (fields: Fields, number: number): bigint => (fields.get(number)?.[0] as bigint | undefined) ?? 0n;

function readSpans(request: Uint8Array): CollectedSpan[] {
  return messages(readFields(request), 1).flatMap((resourceSpans) => {
    const resource = Object.assign({}, ...messages(resourceSpans, 1).map((resource) => readAttributes(resource, 1)));
    return messages(resourceSpans, 2)
      .flatMap((scopeSpans) => messages(scopeSpans, 2))
      .map((span) => ({
        traceId: bytesOf(span, 1).toString("hex"),
        spanId: bytesOf(span, 2).toString("hex"),
        traceState: textOf(span, 3),
        parentSpanId: bytesOf(span, 4).toString("hex"),
        name: textOf(span, 5),
        kind: Number(numberOf(span, 6)),
        startNs: numberOf(span, 7),
        endNs: numberOf(span, 8),
        attributes: readAttributes(span, 9),
        status: messages(span, 15).reduce((_, status) => Number(numberOf(status, 3)), 0),
        resource,
      }));
  });
}

function readAttributes(fields: Fields, number: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(fields, number).map((pair) => {
      const [value = new Map()] = messages(pair, 2);
      return [textOf(pair, 1), value.has(1) ? textOf(value, 1) : value.has(3) ? Number(numberOf(value, 3)) : value];
    }),
  );
}
