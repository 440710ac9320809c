import { call, rpcProtocols } from "../../test/e2e/rpc.ts";
import { type Service, startService } from "../../test/e2e/service.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import type { Context } from "../context.ts";
import { randomFlows } from "../deployments.ts";
import { deploy } from "../../test/e2e/deploy.ts";
import type { Drill } from "../drill.ts";
import { findEarlyResponses } from "../find-early-responses.ts";
import { preload } from "../preload.ts";
import { strace } from "../programs.ts";
import { attachStrace, type SystemCall } from "../strace.ts";

export const fsync: Drill = {
  name: "fsync",
  title: "fsync before the response",
  promise: "A deployment is on disk before it is acknowledged: fsync has returned for everything that it has written.",
  method:
    "Deployments over REST, Connect, gRPC-Web and gRPC are traced with strace. No response may begin while the database or its write-ahead log has writes without a later completed fsync.",
  limits: "The effect of fsync depends on the file system and the disk.",
  programs: [strace],
  async run(context) {
    const rounds = context.pick(5, 250);
    const { calls, deployments } = await traceDeployments(context, rounds, {});
    const { responses, violations } = findEarlyResponses(calls);
    const planted = await traceDeployments(context, 1, preload("synchronous-off"));
    return {
      loads: [
        { name: "deployments", count: deployments, minimum: 4 * rounds },
        { name: "responses found in the trace", count: responses, minimum: 4 * rounds },
      ],
      figures: [
        { name: "fsync calls", value: calls.filter(({ name, begins }) => begins && name === "fsync").length, unit: "" },
        {
          name: "writes to the database",
          value: calls.filter(({ text }) => text.includes("pwrite64(")).length,
          unit: "",
        },
      ],
      violations,
      controls: [{ planted: "SQLite does not call fsync", found: findEarlyResponses(planted.calls).violations }],
    };
  },
};

type Traced = { readonly calls: readonly SystemCall[]; readonly deployments: number };

async function traceDeployments(context: Context, rounds: number, env: Record<string, string>): Promise<Traced> {
  const { createFolder, random } = context;
  await using service = await startService({
    ownProcess: true,
    config: { runtime: { mode: "none" } },
    dataDir: await createFolder(),
    env,
  });
  await using traced = await attachStrace(service.pid, [
    "--trace=pwrite64,pwritev,write,writev,sendto,sendmsg,fsync,fdatasync",
    "--strings-in-hex=all",
    "--string-limit=256",
  ]);
  let deployments = 0;
  for (let round = 0; round < rounds; round++) {
    await deploy(service, { flows: randomFlows(random, 200) });
    deployments += 1 + (await deployOverRpc(service, random));
    context.progress(`${deployments} deployments`);
  }
  return { calls: await traced.end(), deployments };
}

async function deployOverRpc({ url }: Service, random: () => number): Promise<number> {
  let acknowledged = 0;
  for (const protocol of ["Connect", "gRPC-Web", "gRPC"] as const) {
    const outcome = await call(rpcProtocols[protocol](url), FlowsService.method.setFlows, {
      flows: [{ id: `tab ${random()}`, type: "tab" }],
    });
    acknowledged += "message" in outcome ? 1 : 0;
  }
  return acknowledged;
}
