import type { JsonObject } from "@bufbuild/protobuf";
import { Code, type Transport } from "@connectrpc/connect";
import { FlowsService } from "../gen/flowgate/v1/flows_pb.ts";
import { json, v2 } from "../test/e2e/rest.ts";
import { call, rpcProtocols } from "../test/e2e/rpc.ts";
import type { Service } from "../test/e2e/service.ts";
import type { HostileNode } from "./hostile-documents.ts";

/** The status of a deployment, with the names of RPC codes: `ok`, `invalid_argument` and so on. */
type Deploy = (node: HostileNode) => Promise<string>;

type Authorization = Readonly<Record<string, string>>;

const codes: Readonly<Record<number, string>> = {
  200: "ok",
  204: "ok",
  400: "invalid_argument",
  413: "resource_exhausted",
};

const head = '"id":"a","type":"b"';

/** Deploys one node over each protocol; binary ones only take what protobuf can express. */
export function deployOver(service: Pick<Service, "send" | "url">, authorization: Authorization) {
  const post = async (path: string, headers: Authorization, body: string): Promise<string> => {
    const { status } = await service.send("POST", path, { headers: { ...json, ...authorization, ...headers }, body });
    return codes[status] ?? `HTTP ${status}`;
  };
  const binary =
    (transport: Transport): Deploy =>
    async ({ members }) => {
      const flows = [{ id: "a", type: "b", properties: JSON.parse(`{${members}}`) as JsonObject }];
      const outcome = await call(transport, FlowsService.method.setFlows, { flows }, authorization);
      return "refused" in outcome ? toSnakeCase(Code[outcome.refused.code]) : "ok";
    };
  return {
    text: {
      "REST v1": ({ members }) => post("/flows", {}, `[{${head},${members}}]`),
      "REST v2": ({ members }) => post("/flows", v2, `{"flows":[{${head},${members}}]}`),
      "Connect with JSON": ({ members }) =>
        post("/flowgate.v1.FlowsService/SetFlows", {}, `{"flows":[{${head},"properties":{${members}}}]}`),
    },
    binary: {
      Connect: binary(rpcProtocols.Connect(service.url)),
      gRPC: binary(rpcProtocols.gRPC(service.url)),
      "gRPC-Web": binary(rpcProtocols["gRPC-Web"](service.url)),
    },
  } satisfies Record<string, Readonly<Record<string, Deploy>>>;
}

function toSnakeCase(name: string): string {
  return name.replaceAll(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

export type Verdicts = Readonly<Record<string, string>>;

/** Describes verdicts that differ, and those that are not about the client's input. */
export function compareVerdicts(what: string, verdicts: Verdicts): string[] {
  const distinct = new Set(Object.values(verdicts));
  const broken = [...distinct].filter((verdict) => /internal|unknown|HTTP 5/.test(verdict));
  return [
    ...(distinct.size > 1 ? [`${what}: the verdicts differ: ${JSON.stringify(verdicts)}`] : []),
    ...broken.map((verdict) => `${what}: ${verdict}`),
  ];
}
