import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deploy } from "./deploy.ts";
import { counting, endpoint, started, startsEndpoint, tab } from "./flow-builders.ts";
import { type Service, startService } from "./service.ts";

let service: Service;
beforeAll(async () => {
  // The starts of nodes are counted in the context, which a new process does not have.
  service = await startService({ config: { runtime: { freshProcess: "never" } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());

test("an endpoint is available after the response to its deployment, and changes with the next one", async () => {
  await deploy(service, { flows: endpoint("/hello", `msg.payload = "one"`) });
  expect(await service.get("/hello")).toBe("one");
  await deploy(service, { flows: endpoint("/hello", `msg.payload = "two"`) }, "nodes");
  expect(await service.get("/hello")).toBe("two");
  await deploy(service, { flows: endpoint("/other", `msg.payload = "three"`) }, "flows");
  expect(await service.get("/hello")).toContain("Cannot GET /hello");
  expect(await service.get("/other")).toBe("three");
});

describe("what a deployment restarts", () => {
  const starts = async () => JSON.parse(await service.get("/starts")) as Record<string, number>;
  const flows = (changed = "") => [
    ...startsEndpoint,
    tab("T1"),
    counting("a", "T1", { wires: [["b"]] }),
    counting("b", "T1", { wires: [["c"]], func: `${changed} return msg;` }),
    counting("c", "T1"),
    counting("alone", "T1"),
    tab("T2"),
    counting("elsewhere", "T2"),
  ];
  const everything = ["a", "b", "c", "alone", "elsewhere"];

  test.each([
    ["nodes", "// changed\n", ["b"]],
    ["flows", "// changed\n", ["a", "b", "c"]],
    ["nodes", "", []],
    ["flows", "", []],
    ["full", "", everything],
    ["full", "// changed\n", everything],
    ["reload", "", everything],
  ])("%s, with a change of %j", async (type, change, expected) => {
    await deploy(service, { flows: flows() });
    const before = await starts();
    await deploy(service, { flows: flows(change) }, type);
    expect(started(before, await starts()).toSorted()).toEqual(expected.toSorted());
  });

  test("reload restarts the stored flows, not the sent ones", async () => {
    const rev = await deploy(service, { flows: flows() });
    expect(await deploy(service, { flows: [], rev: "whatever" }, "reload")).toBe(rev);
    expect(Object.keys(await starts())).toEqual(expect.arrayContaining(everything));
  });
});
