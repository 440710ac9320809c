import { create, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SetFlowsRequestSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { json, v2 } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";

// Malformed input must cause a client error, no change, and no crash.

const limit = 1024 * 1024;
const setFlows = "/flowgate.v1.FlowsService/SetFlows";

let service: Service;
let rev: string;

beforeAll(async () => {
  service = await startService({ config: { ...withoutRuntime, limits: { bodyBytes: limit } } });
  await service.send("POST", "/flows", { headers: json, body: '[{"id":"t","type":"tab","label":"kept"}]' });
});
beforeEach(async () => {
  rev = await activeRev();
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function activeRev(): Promise<string> {
  return ((await service.send("GET", "/flows", { headers: v2 })).json() as { rev: string }).rev;
}

async function expectUnharmed(): Promise<void> {
  expect(await activeRev()).toBe(rev);
  expect(service.log()).not.toMatch(/"level":"(?:error|fatal)"/);
}

type Bytes = string | Buffer;

const node = (properties: string) => `[{"id":"a","type":"b",${properties}}]`;
const bytes = (...parts: Bytes[]) => Buffer.concat(parts.map((part) => Buffer.from(part as string)));

/** Texts that are not valid JSON, or can't be represented in all protocols, used as the nodes of a request. */
const documents: Readonly<Record<string, { nodes: Bytes; reason: "invalid_json" | "invalid_flows" }>> = {
  "truncated JSON": { nodes: '[{"id":"a","ty', reason: "invalid_json" },
  "a trailing comma": { nodes: '[{"id":"a","type":"b"},]', reason: "invalid_json" },
  "a comment": { nodes: "[/* none */]", reason: "invalid_json" },
  NaN: { nodes: node('"x":NaN'), reason: "invalid_json" },
  "an unescaped newline": { nodes: node('"x":"\n"'), reason: "invalid_json" },
  "two documents": { nodes: "[] []", reason: "invalid_json" },
  "a repeated key": { nodes: node('"x":1,"x":2'), reason: "invalid_json" },
  "a repeated key, escaped": { nodes: node('"x":1,"\\u0078":2'), reason: "invalid_json" },
  "a repeated id": { nodes: '[{"id":"a","id":"c","type":"b"}]', reason: "invalid_json" },
  "invalid UTF-8": { nodes: bytes('[{"id":"a","type":"', Buffer.from([0xc3, 0x28]), '"}]'), reason: "invalid_json" },
  "overlong UTF-8": { nodes: bytes('[{"id":"a","type":"', Buffer.from([0xc0, 0xaf]), '"}]'), reason: "invalid_json" },
  "a surrogate in UTF-8": {
    nodes: bytes('[{"id":"a","type":"', Buffer.from([0xed, 0xa0, 0x80]), '"}]'),
    reason: "invalid_json",
  },
  "UTF-16": { nodes: Buffer.from("[]", "utf16le"), reason: "invalid_json" },
  "__proto__ in a node": { nodes: node('"__proto__":{"x":1}'), reason: "invalid_json" },
  "__proto__ deep in a node": { nodes: node('"x":[{"__proto__":null}]'), reason: "invalid_json" },
  "__proto__, escaped": { nodes: node('"\\u005f_proto__":1'), reason: "invalid_json" },
  "__proto__ as a credential": { nodes: node('"credentials":{"__proto__":"x"}'), reason: "invalid_json" },
  "100,000 arrays": { nodes: "[".repeat(100_000), reason: "invalid_flows" },
  "100,000 closed arrays in a node": {
    nodes: node(`"x":${"[".repeat(100_000)}${"]".repeat(100_000)}`),
    reason: "invalid_flows",
  },
  "50,000 objects": { nodes: node(`"x":${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`), reason: "invalid_flows" },
  "40 levels": { nodes: node(`"x":${"[".repeat(40)}${"]".repeat(40)}`), reason: "invalid_flows" },
  "a number beyond a double": { nodes: node('"x":1e999'), reason: "invalid_json" },
  "an integer that a double would round": { nodes: node('"x":[9007199254740993]'), reason: "invalid_flows" },
  "a lone surrogate in a value": { nodes: node('"x":"\\ud800"'), reason: "invalid_json" },
  "a lone surrogate in a key": { nodes: node('"\\udc00":1'), reason: "invalid_json" },
  "a lone surrogate in an id": { nodes: '[{"id":"\\ud800","type":"b"}]', reason: "invalid_json" },
};

describe("JSON over REST", () => {
  test.each(Object.entries(documents))("%s", async (_name, { nodes, reason }) => {
    for (const [headers, body] of [
      [json, Buffer.from(nodes as string)],
      [{ ...json, ...v2 }, bytes('{"flows":', nodes, "}")],
    ] as const) {
      for (const transfer of [{}, { "transfer-encoding": "chunked" }]) {
        const reply = await service.send("POST", "/flows", { headers: { ...headers, ...transfer }, body });
        expect([reply.status, reply.json()]).toEqual([400, { code: reason, message: expect.any(String) }]);
        expect(reply.body.length).toBeLessThan(1_000);
      }
    }
    await expectUnharmed();
  });

  const v1Expected =
    'the body: must be an array of nodes in API version v1, the default; for an object send the header "Service-API-Version: v2"';
  const v2Expected =
    'the body: must be an object in API version v2; for an array of nodes send the header "Service-API-Version: v1"';
  const long = node(`"x":"${"x".repeat(100_000)}"`);

  test.each([
    ["a v2 body without the header", {}, ' \n{"flows":[]}', v1Expected],
    ["a long v2 body without the header", {}, `{"flows":${long}}`, v1Expected],
    ["a v2 body with the header of v1", { "service-api-version": "v1" }, '{"flows":[]}', v1Expected],
    ["a v1 body with the header of v2", v2, "[]", v2Expected],
    ["a long v1 body with the header of v2", v2, long, v2Expected],
    ["a body of neither version", {}, '"x"', "flows: must be an array"],
  ])("%s: the error describes what to change", async (_name, headers, body, message) => {
    const reply = await service.send("POST", "/flows", { headers: { ...json, ...headers }, body });
    expect([reply.status, reply.json()]).toEqual([400, { code: "invalid_flows", message }]);
    await expectUnharmed();
  });

  test("malformed JSON in the form of the other version is reported as malformed JSON", async () => {
    const reply = await service.send("POST", "/flows", { headers: json, body: '{"flows":[' });
    expect(reply.json()).toMatchObject({ code: "invalid_json" });
  });

  test.each([
    ["no body", "", 400],
    ["blanks", "  ", 400],
    ["a byte order mark alone", "\ufeff", 400],
    ["__proto__ beside the flows", '{"flows":[],"__proto__":{"rev":"x"}}', 400],
    ["__proto__ as a node of credentials", '{"flows":[],"credentials":{"__proto__":{"a":"b"}}}', 400],
    ["rev twice", `{"flows":[],"rev":"x","rev":"y"}`, 400],
    ["flows twice", `{"flows":[],"flows":[]}`, 400],
    ["a number of a million digits", `{"flows":[{"id":"a","type":"b","x":${"9".repeat(900_000)}}]}`, 400],
  ])("%s", async (_name, body, status) => {
    const reply = await service.send("POST", "/flows", { headers: { ...json, ...v2 }, body });
    expect([reply.status, reply.json()]).toEqual([status, { code: "invalid_json", message: expect.any(String) }]);
    await expectUnharmed();
  });

  test.each<[encoding: string, body: Uint8Array, status: number, code: string]>([
    ["gzip", gzipSync("["), 400, "invalid_json"],
    ["gzip", gzipSync("[]").subarray(0, 12), 400, "invalid_encoding"],
    ["br", gzipSync("[]"), 400, "invalid_encoding"],
    ["gzip", gzipSync(Buffer.alloc(64 * 1024 * 1024)), 413, "payload_too_large"],
    ["deflate", Buffer.from("[]"), 415, "unsupported_media_type"],
    ["gzip, br", brotliCompressSync("[]"), 415, "unsupported_media_type"],
  ])("a body that is %s and broken", async (encoding, body, status, code) => {
    const reply = await service.send("POST", "/flows", { headers: { ...json, "content-encoding": encoding }, body });
    expect([reply.status, reply.json()]).toEqual([status, { code, message: expect.any(String) }]);
    await expectUnharmed();
  });
});

describe("JSON over Connect", () => {
  test.each(Object.entries(documents))("%s", async (_name, { nodes }) => {
    const body = bytes('{"flows":', nodesOverConnect(nodes), "}");
    const reply = await service.send("POST", setFlows, { headers: json, body });
    expect({ status: reply.status, code: (reply.json() as { code: string }).code }).toEqual({
      status: 400,
      code: "invalid_argument",
    });
    await expectUnharmed();
  });

  test.each([
    ["an array", "[]"],
    ["null", "null"],
    ["nothing", ""],
    ["flows that are an object", '{"flows":{}}'],
    ["flows that hold null", '{"flows":[null]}'],
    ["an id that is a number", '{"flows":[{"id":1,"type":"b"}]}'],
    ["properties that are an array", '{"flows":[{"id":"a","type":"b","properties":[]}]}'],
    ["a rev that is a number", '{"flows":[],"rev":1}'],
    ["an unknown deployment type", '{"flows":[],"deploymentType":"NO"}'],
    ["credentials that are numbers", '{"flows":[],"credentials":{"nodes":{"a":{"values":{"b":1}}}}}'],
    ["an unknown field", '{"flows":[],"flow":[]}'],
    ["a rev that is null", '{"flows":[],"rev":null}'],
    ["flows that are null", '{"flows":null}'],
    ["credentials that are null", '{"flows":[],"credentials":null}'],
    ["credentials of a node that are null", '{"flows":[{"id":"a","type":"b","credentials":null}]}'],
    ["__proto__ as a node of credentials", '{"flows":[],"credentials":{"nodes":{"__proto__":{"values":{"a":"b"}}}}}'],
    ["__proto__ as a credential", '{"flows":[{"id":"a","type":"b","credentials":{"values":{"__proto__":"b"}}}]}'],
    ["flows twice", '{"flows":[],"flows":[]}'],
    ["rev twice, the second time active", '{"flows":[],"rev":"x","rev":"REV"}'],
  ])("%s", async (_name, body) => {
    const reply = await service.send("POST", setFlows, { headers: json, body: body.replace("REV", rev) });
    expect({ status: reply.status, code: (reply.json() as { code: string }).code }).toEqual({
      status: 400,
      code: "invalid_argument",
    });
    await expectUnharmed();
  });
});

/** Properties other than id and type, which Connect has in properties and values. */
function nodesOverConnect(nodes: Bytes): Bytes {
  return typeof nodes === "string"
    ? nodes
        .replace(/^(\[\{"id":"a","type":"b",)"credentials":(\{.*\})(\}\])$/s, '$1"credentials":{"values":$2}$3')
        .replace(/^(\[\{"id":"a","type":"b",)(?!"credentials")(.*)(\}\])$/s, '$1"properties":{$2}$3')
    : nodes;
}

const bomb = Buffer.alloc(64 * limit, " ");

type Envelope = { flags: number; data: Uint8Array; length?: number };

/** A message of gRPC and gRPC-Web. */
function envelope({ flags, data, length = data.length }: Envelope): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, data]);
}

const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
const field = (number: number, ...content: Uint8Array[]): Buffer => {
  const data = Buffer.concat(content);
  return Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(data.length)]), data]);
};
const text = (number: number, value: string): Buffer => field(number, Buffer.from(value));

/** A node's `properties` with this many nested objects, encoded by hand, as encoders limit the depth. */
function deepStruct(levels: number): Buffer {
  let struct: Buffer = Buffer.alloc(0);
  for (let level = 0; level < levels; level += 1) {
    const value = field(5, struct);
    struct = field(1, text(1, "a"), field(2, value));
  }
  return struct;
}

const ab = [text(1, "a"), text(2, "b")] as const;

const binaries: Readonly<Record<string, Buffer>> = {
  "a broken tag": Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
  "a field number of zero": Buffer.from([0x02, 0x00]),
  "a length beyond the end": Buffer.from([0x0a, 0x7f, 0x00]),
  "a length of 4 GiB": Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
  "a varint that never ends": Buffer.alloc(100, 0xff),
  "an end of a group that never began": Buffer.from([0x0c]),
  "text that is not UTF-8": field(1, field(1, Buffer.from([0xc3, 0x28])), text(2, "b")),
  "no id": field(1, text(2, "b")),
  "no type": field(1, text(1, "a")),
  "an id given as a property": field(1, ...ab, field(5, field(1, text(1, "id"), field(2, text(3, "x"))))),
  "__proto__ as a property": field(1, ...ab, field(5, field(1, text(1, "__proto__"), field(2, text(3, "x"))))),
  "__proto__ as a credential": field(1, ...ab, field(4, field(1, text(1, "__proto__"), text(2, "x")))),
  "__proto__ as a node of credentials": Buffer.concat([
    field(1, ...ab),
    field(3, field(1, text(1, "__proto__"), field(2, field(1, text(1, "a"), text(2, "x"))))),
  ]),
  "a number that is not finite": field(
    1,
    ...ab,
    field(5, field(1, text(1, "x"), field(2, Buffer.from([0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f])))),
  ),
  "an unknown deployment type": Buffer.from([0x20, 0x63]),
  "40 levels": field(1, ...ab, field(5, deepStruct(40))),
  "60 levels": field(1, ...ab, field(5, deepStruct(60))),
  "5,000 levels": field(1, ...ab, field(5, deepStruct(5_000))),
  "100,000 groups": Buffer.alloc(100_000, 0x0b),
};

const good = Buffer.from(toBinary(SetFlowsRequestSchema, create(SetFlowsRequestSchema, {})));

/** Messages with an invalid envelope. */
const wrappings: Readonly<Record<string, { encoding?: string; body: Buffer; codes: Code[] }>> = {
  "an unknown compression": {
    encoding: "snappy",
    body: envelope({ flags: 1, data: good }),
    codes: [Code.Unimplemented],
  },
  "a flag without a compression": {
    body: envelope({ flags: 1, data: gzipSync(good) }),
    codes: [Code.InvalidArgument, Code.Internal],
  },
  "invalid gzip": {
    encoding: "gzip",
    body: envelope({ flags: 1, data: Buffer.from("no gzip at all") }),
    codes: [Code.InvalidArgument],
  },
  "truncated gzip": {
    encoding: "gzip",
    body: envelope({ flags: 1, data: gzipSync(Buffer.alloc(1000, "x")).subarray(0, 15) }),
    codes: [Code.InvalidArgument],
  },
  "a gzip bomb": {
    encoding: "gzip",
    body: envelope({ flags: 1, data: gzipSync(bomb) }),
    codes: [Code.ResourceExhausted],
  },
  "a message shorter than its length": {
    body: envelope({ flags: 0, data: good, length: 100 }),
    codes: [Code.InvalidArgument, Code.Unimplemented],
  },
  "a message with a length of 4 GiB": {
    body: envelope({ flags: 0, data: good, length: 0xffff_ffff }),
    codes: [Code.ResourceExhausted, Code.InvalidArgument],
  },
  "half an envelope": { body: Buffer.from([0, 0, 0]), codes: [Code.InvalidArgument] },
  "no message": { body: Buffer.alloc(0), codes: [Code.InvalidArgument, Code.Unimplemented] },
  "two messages": {
    body: Buffer.concat([envelope({ flags: 0, data: good }), envelope({ flags: 0, data: good })]),
    codes: [Code.InvalidArgument, Code.Unimplemented],
  },
};

describe("binary", () => {
  describe.each(Object.entries(binaries))("%s", (_name, message) => {
    test("over Connect", async () => {
      const reply = await service.send("POST", setFlows, {
        headers: { "content-type": "application/proto" },
        body: message,
      });
      expect({ status: reply.status, code: (reply.json() as { code: string }).code }).toEqual({
        status: 400,
        code: "invalid_argument",
      });
      await expectUnharmed();
    });

    test("over gRPC", async () => {
      expect(await overGrpc(envelope({ flags: 0, data: message }))).toBe("InvalidArgument");
      await expectUnharmed();
    });

    test("over gRPC-Web", async () => {
      expect(await overGrpcWeb(envelope({ flags: 0, data: message }))).toBe("InvalidArgument");
      await expectUnharmed();
    });
  });

  describe.each(Object.entries(wrappings))("%s", (_name, { body, encoding, codes }) => {
    const expected = codes.map((code) => Code[code]);

    test("over gRPC", async () => {
      expect(expected).toContain(await overGrpc(body, encoding));
      await expectUnharmed();
    });

    test("over gRPC-Web", async () => {
      expect(expected).toContain(await overGrpcWeb(body, encoding));
      await expectUnharmed();
    });
  });
});

/** Returns the name of the status. */
async function overGrpc(body: Buffer, encoding?: string): Promise<string | undefined> {
  const session = connectHttp2(service.url);
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": setFlows,
      "content-type": "application/grpc+proto",
      te: "trailers",
      ...(encoding !== undefined && { "grpc-encoding": encoding }),
    });
    const trailers = once(stream, "trailers") as Promise<[Record<string, string>]>;
    trailers.catch(() => {});
    stream.end(body);
    const [headers] = (await once(stream, "response")) as [Record<string, string>];
    stream.resume();
    return Code[Number(headers["grpc-status"] ?? (await trailers)[0]["grpc-status"])];
  } finally {
    session.destroy();
  }
}

async function overGrpcWeb(body: Buffer, encoding?: string): Promise<string | undefined> {
  const reply = await service.send("POST", setFlows, {
    headers: {
      "content-type": "application/grpc-web+proto",
      ...(encoding !== undefined && { "grpc-encoding": encoding }),
    },
    body,
  });
  const status = reply.headers["grpc-status"] ?? /grpc-status: ?(\d+)/i.exec(reply.body)?.[1];
  return Code[Number(status)];
}

describe("compressed Connect", () => {
  test.each([
    ["a gzip bomb", "gzip", gzipSync(bomb), 429, "resource_exhausted"],
    ["a brotli bomb", "br", brotliCompressSync(bomb), 429, "resource_exhausted"],
    ["invalid gzip", "gzip", Buffer.from("{}"), 400, "invalid_argument"],
    ["invalid brotli", "br", Buffer.from("{}"), 400, "invalid_argument"],
    ["an unknown compression", "snappy", Buffer.from("{}"), 501, "unimplemented"],
  ])("%s", async (_name, encoding, body, status, code) => {
    const reply = await service.send("POST", setFlows, { headers: { ...json, "content-encoding": encoding }, body });
    expect({ status: reply.status, code: (reply.json() as { code: string }).code }).toEqual({ status, code });
    await expectUnharmed();
  });
});

describe("an incorrect length", () => {
  const target = [
    ["REST", "/flows", "application/json", "[]"],
    ["Connect", setFlows, "application/json", "{}"],
    ["gRPC-Web", setFlows, "application/grpc-web+proto", "\0\0\0\0\0"],
  ] as const;

  test.each(target)("over %s: one longer than the body changes nothing", async (_protocol, path, type, body) => {
    const socket = connect({ port: service.port, host: "127.0.0.1" });
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: 100\r\n\r\n${body}`,
    );
    socket.end();
    socket.resume();
    await once(socket, "close");
    expect(await activeRev()).toBe(rev);
  });

  test("one shorter than the body makes the rest an invalid request", async () => {
    const socket = connect({ port: service.port, host: "127.0.0.1" });
    socket.write(
      `POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n[]\r\n\r\n`,
    );
    let responses = "";
    socket.on("data", (chunk: Buffer) => (responses += chunk.toString()));
    await once(socket, "close");
    expect(new Set(responses.match(/HTTP\/1\.1 \d+/g))).toEqual(new Set(["HTTP/1.1 400"]));
    await expectUnharmed();
  });

  test.each([
    ["two lengths", "Content-Length: 2\r\nContent-Length: 3\r\n"],
    ["a length and chunks", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"],
    ["a negative length", "Content-Length: -1\r\n"],
    ["a length that is no number", "Content-Length: 2x\r\n"],
    ["an unknown transfer encoding", "Transfer-Encoding: zip\r\n"],
  ])("%s", async (_name, header) => {
    const socket = connect({ port: service.port, host: "127.0.0.1" });
    socket.write(`POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${header}\r\n[]`);
    const [response] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(response.toString()).toMatch(/^HTTP\/1\.1 4\d\d /);
    await expectUnharmed();
  });

  test("a body far beyond the limit is rejected before it is completely sent, with a length or chunked", async () => {
    for (const framing of ["Content-Length: 1000000000", "Transfer-Encoding: chunked"]) {
      const socket = connect({ port: service.port, host: "127.0.0.1" });
      socket.on("error", () => {});
      socket.write(`POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`);
      if (framing.startsWith("Transfer")) {
        const chunk = "x".repeat(64 * 1024);
        for (let sent = 0; sent <= limit; sent += chunk.length) {
          socket.write(`10000\r\n${chunk}\r\n`);
        }
      }
      const [response] = (await once(socket, "data")) as [Buffer];
      socket.destroy();
      expect(response.toString()).toMatch(/^HTTP\/1\.1 413 /);
    }
    await expectUnharmed();
  });
});

test("clients that disconnect during a body or a response do no harm", async () => {
  const leavers = Array.from({ length: 20 }, async (_, index) => {
    const socket = connect({ port: service.port, host: "127.0.0.1" });
    await once(socket, "connect");
    const path = index % 2 === 0 ? "/flows" : setFlows;
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[`,
    );
    socket.resetAndDestroy();
  });
  await Promise.all(leavers);
  await expectUnharmed();
  expect(await activeRev()).toBe(rev);
});

test("an invalid query of Connect is a client error", async () => {
  const getFlows = "/flowgate.v1.FlowsService/GetFlows";
  for (const query of [
    "",
    "?connect=v1",
    "?connect=v1&encoding=json",
    "?connect=v1&encoding=json&message=%zz",
    "?connect=v1&encoding=json&message={",
    "?connect=v1&encoding=xml&message={}",
    "?connect=v1&encoding=proto&base64=1&message=!!!",
    "?connect=v1&encoding=json&compression=gzip&base64=1&message=e30",
  ]) {
    const { status, body } = await service.send("GET", getFlows + query);
    expect([query, status, body]).toEqual([query, expect.toSatisfy((status) => status >= 400 && status < 500), body]);
  }
  await expectUnharmed();
});
