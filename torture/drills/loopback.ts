import { BlockList } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { deploy, tryDeploy } from "../../test/e2e/deploy.ts";
import { endpoint, functionNode, tab } from "../../test/e2e/flow-builders.ts";
import { call, rpcProtocolNames, rpcProtocols } from "../../test/e2e/rpc.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { escape } from "../../packages/runtime/test/flow-builders.ts";
import type { Context } from "../context.ts";
import type { Drill } from "../drill.ts";
import { hostileFlows } from "../hostile-flows.ts";
import { strace } from "../programs.ts";
import { addressing, attachStrace, findForeignAddresses, loopback, readAddresses } from "../strace.ts";

export const onlyLoopback: Drill = {
  name: "loopback",
  title: "No request leaves the machine",
  promise: "The service and its runtime contact no other machine by themselves; neither does any drill.",
  method:
    "The service and its runtime are traced with strace while flows are deployed over every protocol, restarted and replaced by hostile flows. Every address has to be loopback. With root, every drill also runs in a network namespace that has only loopback.",
  programs: [strace],
  async run(context) {
    await using service = await startService({
      ownProcess: true,
      // In a new process, a flow would not run yet when the next one replaces it.
      config: { runtime: { freshProcess: "never", deadlineMs: 4_000, maxOldSpaceMb: 128 } },
      dataDir: await context.createFolder(),
    });
    // The service is ready before the runtime process, which answers this.
    await deploy(service, { flows: [tab("T")] });
    const pids = await service.childPids();
    await using traced = await attachStrace(service.pid, [
      `--trace=${addressing.join()}`,
      ...pids.flatMap((pid) => ["-p", String(pid)]),
    ]);
    const deployments = await useService(service, context);
    await connectTo(service, "127.0.0.2");
    const calls = await traced.end();
    const onlyFirst = new BlockList();
    onlyFirst.addAddress("127.0.0.1");
    return {
      loads: [
        { name: "deployments", count: deployments, minimum: context.pick(10, 60) },
        {
          name: "addresses found in the trace",
          count: calls.flatMap(({ text }) => readAddresses(text)).length,
          minimum: 20,
        },
      ],
      figures: [],
      violations: findForeignAddresses(calls, loopback).map((address) => `a process has contacted ${address}`),
      controls: [{ planted: "a flow connects to 127.0.0.2", found: findForeignAddresses(calls, onlyFirst) }],
    };
  },
};

/** Flows that connect or send by themselves. */
const sending = ["300 connections to the API", "requests to the API", "datagrams to loopback"];

/** Flows that make the runtime restart. */
const restarting = ["process.exit", "a wait for ever"];

async function useService(service: Service, { pick, progress }: Context): Promise<number> {
  let deployments = 0;
  for (const protocol of rpcProtocolNames) {
    await call(rpcProtocols[protocol](service.url), FlowsService.method.setFlows, {
      flows: [{ id: "t", type: "tab" }],
    });
    deployments++;
  }
  for (const name of pick([...sending, ...restarting], Object.keys(hostileFlows))) {
    progress(name);
    const deployed = tryDeploy(service, { flows: hostileFlows[name]?.({ port: service.port }) ?? [] }).catch(
      () => undefined,
    );
    // On a busy machine, they would be replaced before they run. Others are answered late, as they hang.
    await (sending.includes(name) ? deployed : Promise.race([deployed, delay(500)]));
    await deploy(service, { flows: endpoint("/ok", `msg.payload = "ok"`) });
    deployments += 2;
  }
  // The runtime may be restarting.
  await eventually(() => service.get("/ok"));
  return deployments;
}

async function connectTo(service: Service, address: string): Promise<void> {
  const initialize = `${escape} host.getBuiltinModule("net").connect(9, "${address}").on("error", () => node.warn("has tried"));`;
  await deploy(service, { flows: [tab("T"), functionNode("connects", { z: "T", initialize })] });
  await service.untilLogged(/has tried/);
}
