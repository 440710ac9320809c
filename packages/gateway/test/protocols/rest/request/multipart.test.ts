import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MultipartBytesService, RawService, type Attachment } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { ThingSchema } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { createGateway, RequestError, openapi, type GatewayOptions } from "../../../../src/index.ts";
import { parseMultipart } from "../../../../src/protocols/rest/request/multipart.ts";
import { serve, type Send } from "../../../serve.ts";
import { call, createEcho, createMethod, createRequest } from "../../../service.ts";
import { propertyRuns } from "../../../property-runs.ts";

const type = "multipart/form-data; boundary=b";

/** `name` or `name; filename="x"`, the headers after it, and the data. */
type Written = [name: string, data: string | Buffer, headers?: string];

function multipart(...parts: Written[]): Buffer {
  return Buffer.concat([
    ...parts.flatMap(([name, data, headers = ""]) => [
      Buffer.from(`--b\r\nContent-Disposition: form-data; name=${name}\r\n${headers}\r\n`),
      Buffer.from(data as string),
      Buffer.from("\r\n"),
    ]),
    Buffer.from("--b--\r\n"),
  ]);
}

const errorOf = (body: string | Buffer, contentType = type): string => {
  try {
    parseMultipart(Buffer.from(body as string), contentType);
  } catch (error) {
    if (error instanceof RequestError) {
      return `${error.status} ${error.reason} ${error.message.replace("the body is not valid multipart/form-data: ", "")}`;
    }
    throw error;
  }
  return "accepted";
};

describe("the parser", () => {
  test("returns names, file names, types and bytes", () => {
    const binary = Buffer.from([0, 13, 10, 45, 45, 99, 0xff]);
    const parts = parseMultipart(
      multipart(
        ['"a"', ""],
        ['"q%22\\\\ü"; filename="x;\\"y.png"', binary, "content-type: image/png\r\n"],
        ["token ; FileName=f", "--b", "Content-Transfer-Encoding: 8BIT\r\n"],
      ),
      'Multipart/Form-Data; charset=utf-8; boundary="b"',
    );
    expect(parts.map(({ data, ...rest }) => ({ ...rest, data: Buffer.from(data) }))).toEqual([
      { name: "a", filename: undefined, contentType: undefined, data: Buffer.from("") },
      { name: 'q"\\ü', filename: 'x;"y.png', contentType: "image/png", data: binary },
      { name: "token", filename: "f", contentType: undefined, data: Buffer.from("--b") },
    ]);
    expect(parseMultipart(Buffer.from("--b--"), type)).toEqual([]);
  });

  test("discards preamble, epilogue, and the padding after delimiters", () => {
    const body = 'for old readers\r\n--b \t\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b-- \r\nbye';
    expect(parseMultipart(Buffer.from(body), type)).toMatchObject([{ name: "a", data: Buffer.from("1") }]);
  });

  test.each([
    ["", "400 invalid_multipart the boundary was not found"],
    ["preamble--b--", "400 invalid_multipart the boundary was not found"],
    ["preamble\r\n--b x", "400 invalid_multipart part 1: a line break was expected after the boundary"],
    ["--b", "400 invalid_multipart part 1: a line break was expected after the boundary"],
    ["--bc\r\n", "400 invalid_multipart part 1: a line break was expected after the boundary"],
    ["--b\r\n", "400 invalid_multipart part 1: the headers do not end, or exceed 16384 bytes"],
    ["--b\r\nx\r\n--b--", "400 invalid_multipart part 1: the headers do not end, or exceed 16384 bytes"],
    ["--b\r\n\r\nx\r\n--b--", "400 invalid_multipart part 1: the Content-Disposition must be form-data with a name"],
    ["--b--x", "400 invalid_multipart a line break was expected after the closing boundary"],
    [multipart(['"a"', "1"]).subarray(0, -9), "400 invalid_multipart part 1: the closing boundary is missing"],
    [
      multipart(['"a"; name="b"', "1"]),
      "400 invalid_multipart part 1: the Content-Disposition must be form-data with a name",
    ],
    [multipart(['"a', "1"]), "400 invalid_multipart part 1: the Content-Disposition must be form-data with a name"],
    [multipart(['"a"', "1"], ['"b"', "1", "x\r\n"]), "400 invalid_multipart part 2: a header is malformed or repeated"],
    [multipart(['"a"', "1", "X: 1\r\nx: 2\r\n"]), "400 invalid_multipart part 1: a header is malformed or repeated"],
    [multipart(['"a"', "1", "X: 1\r\n folded\r\n"]), "400 invalid_multipart part 1: a header is malformed or repeated"],
    [
      multipart(['"a"', "1", `x: ${"y".repeat(17_000)}\r\n`]),
      "400 invalid_multipart part 1: the headers do not end, or exceed 16384 bytes",
    ],
    [
      multipart(['"a"', "1", "Content-Transfer-Encoding: base64\r\n"]),
      "400 invalid_multipart part 1: the Content-Transfer-Encoding is not supported",
    ],
    [
      multipart(...Array.from({ length: 1001 }, (): Written => ["a", ""])),
      "400 invalid_multipart more than 1000 parts",
    ],
  ])("rejects %j", (body, expected) => {
    expect(errorOf(body)).toBe(expected);
  });

  test.each([
    "multipart/form-data",
    "multipart/form-data; boundary=",
    'multipart/form-data; boundary="a\\"b"',
    `multipart/form-data; boundary=${"x".repeat(71)}`,
  ])("rejects an invalid boundary: %s", (contentType) => {
    expect(errorOf("--b--", contentType)).toBe("400 invalid_multipart the Content-Type has no valid boundary");
  });

  test("throws only RequestErrors, for any bytes", () => {
    const words = ["--b", "\r\n", "--", "Content-Disposition: form-data; name=", '"', "x", ";", ":", "\\", "\0", "ü"];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...words), { maxLength: 20 }), (parts) => {
        errorOf(`--b\r\n${parts.join("")}`);
      }),
      propertyRuns(2000),
    );
  });

  // Quadratic work would exceed the time limit of the test.
  test("reads a long body that resembles boundaries and quotes", () => {
    const quotes = errorOf(`--b\r\nContent-Disposition: form-data; ${'a="\\'.repeat(4000)}\r\n\r\n\r\n--b--`);
    const boundaries = errorOf(multipart(['"a"', "\r\n--".repeat(1_000_000)]));
    expect([quotes.startsWith("400 "), boundaries]).toEqual([true, "accepted"]);
  });
});

describe("a message", () => {
  let seen: Attachment | undefined;
  let server: AsyncDisposable & { send: Send };
  beforeAll(async () => {
    server = await serve({
      routes: (router) =>
        router.service(RawService, {
          attach(request) {
            seen = request;
            return {};
          },
        }),
    });
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const attach = async (body: Buffer): Promise<[number, unknown]> => {
    seen = undefined;
    const reply = await server.send("POST", "/raw/attach", { headers: { "content-type": type }, body });
    return [reply.status, JSON.parse(reply.body)];
  };

  test("is set from text parts and files", async () => {
    const png = Buffer.from([0x89, 0x50, 0, 0xff]);
    const body = multipart(
      ['"title"', "a+b & c=ü"],
      ['"numbers"', "1", "Content-Type: text/plain; charset=UTF-8\r\n"],
      ['"numbers"', "2"],
      ['"data"; filename="d"', png],
      ['"file"; filename="f.png"', png, "Content-Type: image/png\r\n"],
      ['"files"', "plain"],
      ['"files"', "<a/>", "Content-Type: text/xml\r\n"],
      ['"note"', ""],
    );
    expect(await attach(body)).toEqual([200, {}]);
    expect(seen).toMatchObject({
      title: "a+b & c=ü",
      numbers: [1, 2],
      data: png,
      file: { contentType: "image/png", data: png },
      files: [
        { contentType: "text/plain", data: Buffer.from("plain") },
        { contentType: "text/xml", data: Buffer.from("<a/>") },
      ],
      note: "",
    });
  });

  test("has bytes from base64 in a text part", async () => {
    expect(await attach(multipart(['"data"', "3q2+7w=="]))).toEqual([200, {}]);
    expect(Buffer.from(seen?.data ?? []).toString("hex")).toBe("deadbeef");
  });

  test.each<[string, Buffer, string]>([
    ["a file twice", multipart(['"data"; filename=a', "1"], ['"data"', "MQ=="]), "data: set more than once"],
    ["an HttpBody twice", multipart(['"file"', "1"], ['"file"', "1"]), "file: set more than once"],
    ["a text twice", multipart(['"title"', "1"], ['"title"', "2"]), "title: set more than once"],
    ["a file for a text", multipart(['"title"; filename=a', "1"]), "a file can only be sent for data, file, files"],
    [
      "an unknown file",
      multipart(['"x"; filename=a', "1"]),
      "a file for an unknown field; the fields for files are data, file, files",
    ],
    [
      "an unknown text",
      multipart(['"x"', "1"]),
      "x: unknown parameter; the parameters are title, numbers, data, file, files, note",
    ],
    ["a value of the wrong type", multipart(['"numbers"', "x"]), "numbers: must be a 32-bit integer"],
    ["no UTF-8", multipart(['"title"', Buffer.from([0xff])]), "title: text in UTF-8 was expected"],
    [
      "another charset",
      multipart(['"title"', "x", "Content-Type: text/plain; charset=utf-16\r\n"]),
      "title: text in UTF-8 was expected",
    ],
  ])("is rejected for %s", async (_what, body, message) => {
    expect(await attach(body)).toEqual([400, { code: "invalid_argument", message }]);
    expect(seen).toBeUndefined();
  });

  test("can be sent as JSON too, but not as other types", async () => {
    const send = (contentType: string) =>
      server.send("POST", "/raw/attach", { headers: { "content-type": contentType }, body: "{}" });
    expect((await send("application/json")).status).toBe(200);
    expect(await send("text/plain")).toMatchObject({
      status: 415,
      headers: { "accept-post": "multipart/form-data, application/json" },
    });
  });

  test("can be sent by a browser", async () => {
    const form = new FormData();
    form.set("title", "t\u00fc");
    form.append("files", new Blob(["1"], { type: "text/csv" }), 'a"b.csv');
    form.append("files", new Blob(["2"]));
    const request = new Request("http://x", { method: "POST", body: form });
    const body = Buffer.from(await request.arrayBuffer());
    const headers = { "content-type": request.headers.get("content-type") ?? "" };
    expect((await server.send("POST", "/raw/attach", { headers, body })).status).toBe(200);
    expect(seen).toMatchObject({
      title: "t\u00fc",
      files: [{ contentType: "text/csv" }, { contentType: "application/octet-stream" }],
    });
  });
});

test("a message without fields for files is rejected at start-up", () => {
  expect(() => createGateway({ routes: (router) => router.service(MultipartBytesService, {}) })).toThrow(
    /MultipartBytesService.*has no field of type bytes or google.api.HttpBody for multipart\/form-data/,
  );
});

test("a JSON part can have its Content-Type, as in the OpenAPI document", async () => {
  const rule = { pattern: { case: "post", value: "/x" }, body: "*" } as const;
  const { gateway, seen } = createEcho(ThingSchema, rule, {}, { consumes: ["multipart/form-data"] });
  const method = createMethod(ThingSchema, rule, { consumes: ["multipart/form-data"] });
  const routes: GatewayOptions["routes"] = (router) => router.rpc(method, (request) => request);
  const json = "Content-Type: application/json\r\n";
  const send = async (body: Buffer): Promise<unknown> => call({ gateway }, createRequest("POST", "/x", body, type));
  const operation = openapi({ routes }, { info: { title: "", version: "" } }).paths["/x"]?.["post"];
  expect(JSON.stringify(operation)).toContain('"struct":{"contentType":"application/json"}');
  expect(
    await send(multipart(['"struct"', '{"a":[1]}', json], ['"counts"', '{"b":2}', json], ['"small"', "3", json])),
  ).toMatchObject({ status: 200 });
  expect(seen).toMatchObject([{ struct: { a: [1] }, counts: { b: 2 }, small: 3 }]);
  expect(await send(multipart(['"struct"', "[]", json]))).toMatchObject({
    status: 400,
    body: { message: "struct: must be a JSON object" },
  });
  // In a field for files, any part is a file.
  expect(await send(multipart(['"data"', "{}", json]))).toMatchObject({ status: 200 });
  expect(seen.at(-1)).toMatchObject({ data: Buffer.from("{}") });
});
