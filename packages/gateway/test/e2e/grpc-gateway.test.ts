import {
  createRegistry,
  toJson,
  type DescMethodStreaming,
  type DescMethodUnary,
  type DescService,
  type Message,
} from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, describe, expect, test } from "vitest";
import { createRestTransport } from "../../src/client/index.ts";
import { callStream, callUnary, errorOf } from "../client/captured.ts";
import { openGrpcGateway } from "./grpc-gateway.ts";

const gateway = await openGrpcGateway();
if (typeof gateway === "string") {
  process.stderr.write(`The tests of the REST transport with grpc-gateway are skipped: ${gateway}.\n`);
}

describe.skipIf(typeof gateway === "string")("the server of grpc-gateway", () => {
  const opened = gateway as Exclude<typeof gateway, string>;
  afterAll(() => opened[Symbol.asyncDispose]());
  const service = (name: string): DescService =>
    opened.types.getService(`grpc.gateway.examples.internal.proto.examplepb.${name}`) as DescService;
  const open = () => ({
    transport: createRestTransport({
      baseUrl: opened.baseUrl,
      timeoutHeader: "Grpc-Timeout",
      query: { maps: true, fieldMaskNames: "proto" },
      jsonOptions: { registry: createRegistry(...opened.types) },
    }),
  });
  const method = (name: string, of = "ABitOfEverythingService"): DescMethodUnary => {
    const found = service(of).methods.find((each) => each.name === name);
    if (found?.methodKind !== "unary") {
      throw new Error(`there is no unary method ${name}`);
    }
    return found as DescMethodUnary;
  };
  const stream = (name: string): DescMethodStreaming => {
    const found = service("StreamService").methods.find((each) => each.name === name);
    if (found === undefined || found.methodKind === "unary") {
      throw new Error(`there is no stream ${name}`);
    }
    return found as DescMethodStreaming;
  };
  const call = async (name: string, message: Record<string, unknown>, of?: string): Promise<object> => {
    const called = method(name, of);
    return toJson(called.output, (await callUnary(open(), called, message)) as never) as object;
  };

  const everything = {
    floatValue: 1.5,
    doubleValue: -2.5,
    int64Value: -(2n ** 63n),
    uint64Value: 2n ** 64n - 1n,
    int32Value: -1,
    fixed64Value: 7n,
    fixed32Value: 8,
    boolValue: true,
    stringValue: "a b/c%2F+ü世😀",
    bytesValue: Uint8Array.of(251, 255, 0),
    uint32Value: 9,
    enumValue: 1,
    sfixed32Value: -3,
    sfixed64Value: -4n,
    sint32Value: -5,
    sint64Value: -6n,
    repeatedStringValue: ["x", "&=", ""],
    mapValue: { a: 1 },
    mappedStringValue: { "k.1": "v&" },
    timestampValue: { seconds: 1n, nanos: 500_000_000 },
    nested: [{ name: "n", amount: 3 }],
    singleNested: { name: "s/t", amount: 4 },
  };
  const expected = {
    floatValue: 1.5,
    int64Value: "-9223372036854775808",
    uint64Value: "18446744073709551615",
    stringValue: "a b/c%2F+ü世😀",
    bytesValue: "+/8A",
    enumValue: "ONE",
    repeatedStringValue: ["x", "&=", ""],
    mapValue: { a: "ONE" },
    mappedStringValue: { "k.1": "v&" },
    timestampValue: "1970-01-01T00:00:01.500Z",
    singleNested: { name: "s/t", amount: 4 },
  };

  test("takes and returns a body", async () => {
    expect(await call("CreateBody", everything)).toMatchObject({ ...expected, nested: [{ name: "n", amount: 3 }] });
  });

  test("takes a path of 18 variables, and a query", async () => {
    const { nested: _, singleNested: _nested, ...rest } = everything;
    const message = {
      ...rest,
      stringValue: "strprefix/a b",
      nonConventionalNameValue: "n",
      pathEnumValue: 1,
      nestedPathEnumValue: 1,
      enumValueAnnotation: 1,
    };
    const { singleNested: _expected, ...others } = expected;
    expect(await call("Create", message)).toMatchObject({ ...others, stringValue: "strprefix/a b" });
  });

  test("takes a query with nested fields and a variable with a slash", async () => {
    const { nested: _, ...message } = everything;
    expect(await call("CheckGetQueryParams", { ...message, singleNested: { name: "s", amount: 4 } })).toMatchObject({
      ...expected,
      singleNested: { name: "s", amount: 4 },
    });
  });

  test("takes path, query and body together", async () => {
    const message = { stringValue: "s", int64Value: 5n, singleNested: { name: "n", amount: 2 } };
    expect(await call("CheckPostQueryParams", message)).toMatchObject({
      stringValue: "s",
      int64Value: "5",
      singleNested: { name: "n", amount: 2 },
    });
  });

  test("updates fields by a mask, and returns what it has", async () => {
    const created = (await call("CreateBody", { stringValue: "before", int32Value: 1 })) as { uuid: string };
    const abe = { uuid: created.uuid, stringValue: "after", int32Value: 2 };
    expect(await call("UpdateV2", { abe, updateMask: { paths: ["string_value"] } })).toEqual({});
    expect(await call("Lookup", { uuid: created.uuid })).toMatchObject({ stringValue: "after", int32Value: 1 });
    expect(await call("Delete", { uuid: created.uuid })).toEqual({});
    const error = await errorOf(call("Lookup", { uuid: created.uuid }));
    expect([error.code, error.rawMessage]).toEqual([Code.NotFound, "not found"]);
  });

  test("chooses the additional binding", async () => {
    // Without an option, the gateway takes an encoded slash for a separator.
    expect(await call("Echo", { value: "a b%" })).toEqual({ value: "a b%" });
    expect(await call("Echo", { value: "" })).toEqual({ value: "" });
  });

  test("returns a field as the body", async () => {
    expect(await call("GetResponseBody", { data: "d" }, "ResponseBodyService")).toEqual({ response: { data: "d" } });
    expect(await call("ListResponseStrings", { data: "d" }, "ResponseBodyService")).toEqual({ values: ["hello", "d"] });
  });

  test("returns errors", async () => {
    const error = await errorOf(call("ErrorWithDetails", {}));
    expect([error.code, error.rawMessage]).toEqual([Code.Unknown, "with details"]);
  });

  test("applies the deadline", async () => {
    const error = await errorOf(callUnary(open(), method("Timeout"), {}, { timeoutMs: 500 }));
    expect(error.code).toBe(Code.DeadlineExceeded);
  });

  test("streams", async () => {
    await call("CreateBody", { stringValue: "listed" });
    const listed = await callStream(open(), stream("List"), [{}]);
    expect(listed.length).toBeGreaterThan(0);
    const error = await errorOf(callStream(open(), stream("List"), [{ error: true }]));
    expect([error.code, error.rawMessage]).toEqual([Code.InvalidArgument, "error"]);
    const chunks = (await callStream(open(), stream("Download"), [{}])) as (Message & { data: Uint8Array })[];
    expect(Buffer.concat(chunks.map(({ data }) => data)).toString()).toBe("Hello 1\nHello 2\n");
    expect(await callStream(open(), stream("BulkCreate"), [{ stringValue: "a" }, { stringValue: "b" }])).toHaveLength(
      1,
    );
    expect(await callStream(open(), stream("BulkEcho"), [{ value: "a" }, { value: "b" }])).toMatchObject([
      { value: "a" },
      { value: "b" },
    ]);
  });
});
