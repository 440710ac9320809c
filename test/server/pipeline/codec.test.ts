import { createRequestDecoder } from "@flowgate/gateway";
import { expect, test } from "vitest";
import { FlowsService, type SetFlowsRequest } from "../../../gen/flowgate/v1/flows_pb.ts";

// JSON.parse of Node 26.10 takes the second key for that of the earlier message.
test("JSON messages have the keys with escapes that were sent", () => {
  const decode = createRequestDecoder(FlowsService.method.setFlows);
  for (const key of ["\\", "\n"]) {
    const properties = { x: 1, [key]: 1 };
    JSON.parse(JSON.stringify(properties));
    const bytes = Buffer.from(JSON.stringify({ flows: [{ id: "a", type: "t", properties }] }));
    const { flows } = decode(bytes, { kind: "json" }) as SetFlowsRequest;
    expect(Object.keys(flows[0]?.properties ?? {})).toEqual(["x", key]);
  }
});
