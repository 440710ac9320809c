import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { create, type DescFile, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CodeGeneratorRequestSchema, CodeGeneratorResponseSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { generate } from "../../src/plugin/generate.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";

const plugin = resolve(import.meta.dirname, "../../src/plugin/main.ts");

/** The file after those that it imports, as protoc and buf send them. */
function withImports(file: DescFile): DescFile[] {
  return [...new Set([...file.dependencies.flatMap(withImports), file])];
}

test("a process of this Node.js answers as generate() does", async () => {
  const request = create(CodeGeneratorRequestSchema, {
    parameter: "output=streams.yaml,include=gatewaytest.v1.StreamsService",
    fileToGenerate: [`${StreamsService.file.name}.proto`],
    protoFile: [...new Set(withImports(StreamsService.file))].map(({ proto }) => proto),
  });
  const child = execFile(process.execPath, [plugin], { encoding: "buffer" });
  child.stdin?.end(toBinary(CodeGeneratorRequestSchema, request));
  if (child.stdout === null || child.stderr === null) {
    throw new Error("the process has no output");
  }
  const [written, errors] = await Promise.all([buffer(child.stdout), text(child.stderr)]);
  expect(errors).toBe("");
  expect(written).toEqual(Buffer.from(toBinary(CodeGeneratorResponseSchema, generate(request))));
  expect(fromBinary(CodeGeneratorResponseSchema, written).file[0]?.content).toContain("- name: StreamsService");
});
