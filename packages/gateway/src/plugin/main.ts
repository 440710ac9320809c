#!/usr/bin/env node
// The protoc plugin protoc-gen-flowgate-openapi: a CodeGeneratorRequest on stdin, a CodeGeneratorResponse on stdout.
import { buffer } from "node:stream/consumers";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { CodeGeneratorRequestSchema, CodeGeneratorResponseSchema } from "@bufbuild/protobuf/wkt";
import { generate } from "./generate.ts";

const request = fromBinary(CodeGeneratorRequestSchema, await buffer(process.stdin));
process.stdout.write(toBinary(CodeGeneratorResponseSchema, generate(request)));
