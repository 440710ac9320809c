import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { createRestTransport } from "../../src/client/index.ts";
import { complianceCases } from "../compliance.ts";
import {
  Color,
  ComplianceService,
  GetEnumResponseSchema,
  RepeatDataResponseSchema,
} from "../gen/gatewaytest/v1/compliance_pb.ts";
import { callUnary, errorOf } from "../client/captured.ts";
import { buildPeers, openPeer } from "./peers.ts";

const reason = await buildPeers();
if (reason !== undefined) {
  process.stderr.write(`The tests of the REST transport with transcoders in Go are skipped: ${reason}.\n`);
}

/** vanguard-go 0.3 decodes a path before it splits it, and each value again, so that "%" and "/" in a value fail. */
const refused: Readonly<Record<string, readonly string[]>> = {
  vanguard: [
    "repeatDataSimplePath extremes",
    "repeatDataSimplePath percents",
    "repeatDataSimplePath slashes that resemble the segments of another template",
    "repeatDataPathResource the resources of the first binding",
    "repeatDataPathTrailingResource the resources of the first binding",
    "repeatDataPathResource the resources of the additional binding",
  ],
};

describe.skipIf(reason !== undefined).each(["grpc-gateway", "vanguard"])("the REST transport calls %s:", (name) => {
  let peer: Awaited<ReturnType<typeof openPeer>>;
  beforeAll(async () => {
    peer = await openPeer(name);
  });
  afterAll(() => peer[Symbol.asyncDispose]());
  const open = () => ({ transport: createRestTransport({ baseUrl: peer.url }) });

  const isRefused = ([rpc, kind]: (typeof complianceCases)[number]): boolean =>
    refused[name]?.includes(`${rpc} ${kind}`) === true;

  test.each(complianceCases.filter((each) => !isRefused(each)))("%s returns %s", async (rpc, _kind, message) => {
    expect(await callUnary(open(), ComplianceService.method[rpc], message)).toEqual(
      create(RepeatDataResponseSchema, { request: message }),
    );
  });

  test.each(complianceCases.filter(isRefused))("%s with %s is not found", async (rpc, _kind, message) => {
    expect((await errorOf(callUnary(open(), ComplianceService.method[rpc], message))).code).toBe(Code.NotFound);
  });

  test.each([false, true])("getEnum returns its enum value (unknown: %s)", async (unknown) => {
    expect(await callUnary(open(), ComplianceService.method.getEnum, { unknown })).toEqual(
      create(GetEnumResponseSchema, { request: { unknown }, color: unknown ? (-4711 as Color) : Color.GREEN }),
    );
  });

  test("an error has its details", async () => {
    const error = await errorOf(callUnary(open(), ComplianceService.method.verifyEnum, { color: Color.RED }));
    expect([error.code, error.rawMessage]).toEqual([Code.InvalidArgument, "the color is 1"]);
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "WRONG_COLOR", domain: "compliance.test" }]);
  });
});
