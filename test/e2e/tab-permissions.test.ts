import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { runCommand } from "../cli/run-command.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { type Node, reporter, tab } from "./flow-builders.ts";
import { bearer, json, type Reply, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";

const comment = (id: string, z: string, name = id): Node => ({ id, type: "comment", z, x: 1, y: 1, name });
const labelled = (id: string, label: string): Node => ({ ...tab(id), label });
const greetings = [labelled("g", "Greetings"), comment("g1", "g"), reporter("gr", "g")];
const invoices = [labelled("i", "Invoices"), comment("i1", "i"), reporter("ir", "i")];
const shared: Node = { id: "shared", type: "tls-config", name: "shared" };
const flows = [...greetings, ...invoices, shared];
const onTabs = ["flows.write@tab:Greetings", "flows.write@tab:new"];
const merging = { "service-deployment-merge": "true" };

let service: Service;
let admin: Record<string, string>;
/** May change the tab Greetings, and the tab with the id `new`. */
let greeter: Record<string, string>;
let rev: string;

beforeAll(async () => {
  const users = [user("admin", "*"), user("greeter", ["read", ...onTabs])];
  service = await startService({ config: { ...withoutRuntime, adminAuth: { users } } });
  admin = bearer(await login(service, {}));
  greeter = bearer(await login(service, { username: "greeter", scope: `read ${onTabs.join(" ")}` }));
});
afterAll(() => service?.[Symbol.asyncDispose]());
beforeEach(async () => {
  const credentials = { gr: { user: "one" }, ir: { user: "one" } };
  await deploy(service, { flows, credentials }, "full", admin);
  rev = await deploy(service, { flows: [...flows, comment("last", "g")] }, "nodes", admin);
});

const active = async () =>
  (await service.send("GET", "/flows", { headers: { ...admin, "service-api-version": "v2" } })).json() as {
    flows: Node[];
    rev: string;
  };

const send = (method: string, path: string, body: object = {}) =>
  service.send(
    method,
    path,
    method === "DELETE" ? { headers: greeter } : { headers: { ...greeter, ...json }, body: JSON.stringify(body) },
  );

/** The parts that a refusal names. */
async function refused(response: Promise<Reply>): Promise<string | undefined> {
  const before = (await active()).rev;
  const { status, headers } = await response;
  expect({ status, rev: (await active()).rev }).toEqual({ status: 401, rev: before });
  const challenge = headers["www-authenticate"] ?? "";
  expect(challenge).toMatch(/^Bearer realm="flowgate", error="insufficient_scope", .*scope="flows\.write"$/);
  return /error_description="The deployment would change (.*), on which the access token/.exec(challenge)?.[1];
}

const asGreeter = (nodes: readonly Node[], more: object = {}, headers: Record<string, string> = {}) =>
  tryDeploy(service, { flows: nodes, ...more }, "nodes", { ...greeter, ...headers });

const replaced = (nodes: readonly Node[], id: string, properties: object): Node[] =>
  nodes.map((node) => (node.id === id ? { ...node, ...properties } : node));

describe("a deployment", () => {
  test.each<[string, readonly Node[], object?]>([
    ["a node of the tab", replaced(flows, "g1", { name: "changed" })],
    ["a removed tab", flows.filter(({ id, z }) => id !== "g" && z !== "g")],
    ["a tab that is named by its id", [...flows, labelled("new", "New"), comment("n1", "new")]],
    ["another tab with the label", [...flows, labelled("other", "Greetings"), comment("o1", "other")]],
    ["credentials of the tab", flows, { credentials: { gr: { user: "two" } } }],
    ["the order of nodes", [...invoices, ...greetings, shared]],
  ])("may change %s", async (_name, nodes, more) => {
    expect((await asGreeter(nodes, { rev, ...more })).status).toBe(200);
  });

  test.each<[string, readonly Node[], string, object?]>([
    ["a node of another tab", replaced(flows, "i1", { name: "changed" }), `the tab 'Invoices' ('i')`],
    ["another tab that is removed", [...greetings, shared], `the tab 'Invoices' ('i')`],
    [
      "another tab that is renamed to its own",
      replaced(flows, "i", { label: "Greetings" }),
      `the tab 'Invoices' ('i')`,
    ],
    ["its tab that is renamed", replaced(flows, "g", { label: "Other" }), `the tab 'Greetings' ('g')`],
    ["a node that is moved to its tab", replaced(flows, "i1", { z: "g" }), `the tab 'Invoices' ('i')`],
    ["a node that is moved from its tab", replaced(flows, "g1", { z: "i" }), `the tab 'Invoices' ('i')`],
    ["nodes outside of tabs", replaced(flows, "shared", { name: "mine" }), "nodes outside of tabs"],
    ["subflows", [...flows, { id: "s", type: "subflow", name: "Greetings", in: [], out: [] }], `the subflow 's'`],
    ["a new tab", [...flows, labelled("x", 'Ünter "x"')], `the tab '?nter ''x''' ('x')`],
    ["credentials of another tab", flows, `the tab 'Invoices' ('i')`, { credentials: { ir: { user: "two" } } }],
    ["several tabs", [...flows, labelled("x", "X"), comment("i2", "i")], `the tab 'X' ('x'), the tab 'Invoices' ('i')`],
  ])("may not change %s", async (_name, nodes, parts, more) => {
    expect(await refused(asGreeter(nodes, more))).toBe(parts);
    expect(await refused(asGreeter(nodes, { rev, ...more }))).toBe(parts);
  });

  test("may not take over a tab that exists only as the z of nodes", async () => {
    const adrift = [...flows, comment("d1", "drift")];
    await deploy(service, { flows: adrift }, "nodes", admin);
    expect(await refused(asGreeter([...adrift, labelled("drift", "Greetings")]))).toBe(`the tab 'drift'`);
    expect(await refused(asGreeter(adrift.filter(({ id }) => id !== "g")))).toBe(`the tab 'Greetings' ('g')`);
  });

  test("may not use the credentials of a node that was removed from another tab", async () => {
    await deploy(service, { flows: flows.filter(({ id }) => id !== "ir") }, "nodes", admin);
    const moved = replaced(flows, "ir", { z: "g" });
    expect(await refused(asGreeter(moved))).toBe(`the tab 'Invoices' ('i')`);
    expect(await refused(asGreeter(moved, { credentials: { ir: { user: "mine" } } }))).toBe(`the tab 'Invoices' ('i')`);
  });

  test("gets back the credentials of a node that was removed from its tab", async () => {
    await deploy(service, { flows: flows.filter(({ id }) => id !== "gr") }, "nodes", admin);
    expect((await asGreeter(flows)).status).toBe(200);
  });

  test("does not tell whether credentials of another tab were guessed", async () => {
    await deploy(service, { flows, credentials: { ir: { user: "two" } } }, "nodes", admin);
    for (const user of ["two", "guess"]) {
      const credentials = { ir: { user } };
      const inline = replaced(flows, "ir", { credentials: { user } });
      expect(await refused(asGreeter(flows, { credentials }))).toBe(`the tab 'Invoices' ('i')`);
      expect(await refused(asGreeter(inline))).toBe(`the tab 'Invoices' ('i')`);
      // Both sides have changed them since this revision, which is a conflict unless they are the same.
      expect(await refused(asGreeter(flows, { rev, credentials }))).toBe(`the tab 'Invoices' ('i')`);
      expect(await refused(asGreeter(flows, { rev, credentials }, merging))).toBe(`the tab 'Invoices' ('i')`);
    }
  });

  test("that expects an earlier revision gets the conflict", async () => {
    await deploy(service, { flows: replaced(flows, "i1", { name: "theirs" }) }, "nodes", admin);
    const mine = [...replaced(flows, "g1", { name: "mine" }), comment("last", "g")];
    const { status, body } = await asGreeter(mine, { rev });
    expect([status, JSON.parse(body)]).toMatchObject([409, { code: "version_mismatch" }]);
    const flow = { label: "Greetings", nodes: [] };
    expect((await send("PUT", "/flow/g", { ...flow, rev })).status).toBe(409);
  });

  test.each(rpcProtocolNames)("is refused with the tabs named over %s", async (protocol) => {
    const nodes = (await active()).flows.map(({ id, type, ...properties }) => ({ id, type, properties }));
    const outcome = await call(
      rpcProtocols[protocol](service.url),
      FlowsService.method.setFlows,
      { flows: nodes.filter(({ id }) => id !== "i1") as object[] },
      greeter,
    );
    expect(outcome).toMatchObject({
      refused: {
        reason: "insufficient_scope",
        message:
          'The deployment would change the tab "Invoices" ("i"), on which the access token, or its user, lacks the permission flows.write.',
      },
    });
  });

  test("is compared with what it is merged with", async () => {
    const theirs = [...replaced(flows, "i1", { name: "theirs" }), comment("last", "g")];
    const mine = [...replaced(flows, "g1", { name: "mine" }), comment("last", "g")];
    await deploy(service, { flows: theirs }, "nodes", admin);
    expect((await asGreeter(mine, { rev }, merging)).status).toBe(200);
    expect((await active()).flows).toEqual(replaced(theirs, "g1", { name: "mine" }));
    const parts = refused(asGreeter(replaced(mine, "ir", { name: "mine" }), { rev }, merging));
    expect(await parts).toBe(`the tab 'Invoices' ('i')`);
    // Without a condition, it would undo the changes of others.
    expect(await refused(asGreeter(mine))).toBe(`the tab 'Invoices' ('i')`);
  });

  test("of type reload restarts all tabs, and is refused", async () => {
    const reload = tryDeploy(service, { flows: [] }, "reload", greeter);
    expect(await refused(reload)).toBe("all tabs, whose nodes a reload restarts");
  });

  test("that is repeated with its key gets the first result", async () => {
    const key = { "idempotency-key": `"repeated"` };
    const nodes = replaced(flows, "g1", { name: "once" });
    const first = await asGreeter(nodes, {}, key);
    await deploy(service, { flows: replaced(nodes, "i1", { name: "later" }) }, "nodes", admin);
    const second = await asGreeter(nodes, {}, key);
    expect([second.status, second.json()]).toEqual([200, first.json()]);
  });
});

test("restoring, undoing and changing one flow are limited in the same way", async () => {
  expect((await send("POST", "/flows:undo")).status).toBe(200);
  const changed = await deploy(service, { flows: replaced(flows, "i1", { name: "changed" }) }, "nodes", admin);
  const invoicesTab = `the tab 'Invoices' ('i')`;
  expect(await refused(send("POST", "/flows:undo"))).toBe(invoicesTab);
  expect(await refused(send("POST", `/revisions/${rev}:restore`))).toBe(invoicesTab);
  expect((await send("POST", `/revisions/${changed}:restore`)).status).toBe(200);
  expect(await refused(send("PUT", "/flow/i", { label: "Invoices", nodes: [] }))).toBe(invoicesTab);
  expect(await refused(send("POST", "/flow/i:disable"))).toBe(invoicesTab);
  expect(await refused(send("DELETE", "/flow/i"))).toBe(invoicesTab);
  expect(await refused(send("POST", "/flow", { label: "Other", nodes: [] }))).toMatch(
    /^the tab 'Other' \('[\da-f]+'\)$/,
  );
  expect((await send("POST", "/flow", { label: "Greetings", nodes: [] })).status).toBeLessThan(300);
  expect((await send("POST", "/flow/g:disable")).status).toBe(200);
  expect((await send("PUT", "/flow/g", { label: "Greetings", nodes: [] })).status).toBeLessThan(300);
  expect((await send("DELETE", "/flow/g")).status).toBeLessThan(300);
});

test("an import of the command line is limited in the same way", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-import-"));
  const env = { FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN: greeter["authorization"]?.replace("Bearer ", "") ?? "" };
  const importFlows = async (nodes: readonly Node[]) => {
    await writeFile(join(folder.path, "flows.json"), JSON.stringify(nodes));
    return runCommand(["import", folder.path, "--flow-file", "flows.json", "--type", "nodes", "--yes", "--force"], {
      env,
    });
  };
  const foreign = await importFlows(replaced(flows, "i1", { name: "imported" }));
  expect([foreign.code, foreign.stderr]).toEqual([1, expect.stringContaining(`the tab "Invoices" ("i")`)]);
  expect((await active()).rev).toBe(rev);
  const own = await importFlows(replaced(flows, "g1", { name: "imported" }));
  expect([own.code, own.stderr]).toEqual([0, expect.anything()]);
  expect((await active()).flows).toContainEqual(expect.objectContaining({ id: "g1", name: "imported" }));
});

test("a refusal is recorded, and the limits apply to tokens", async () => {
  await refused(asGreeter(replaced(flows, "i1", { name: "audited" })));
  const { entries } = (await service.send("GET", "/audit?kind=permission_denied", { headers: admin })).json() as {
    entries: object[];
  };
  expect(entries).toContainEqual(
    expect.objectContaining({
      user: "greeter",
      subject: "flowgate.v1.FlowsService.SetFlows",
      detail: 'flows.write on the tab "Invoices" ("i")',
    }),
  );
  let changes = 0;
  const change = () => replaced(flows, "g1", { name: `change ${(changes += 1)}` });
  const withScope = async (username: string, scope: string) =>
    (await tryDeploy(service, { flows: change() }, "nodes", bearer(await login(service, { username, scope })))).status;
  expect(await withScope("admin", "read flows.write@tab:i")).toBe(401);
  expect(await withScope("admin", "read flows.write@tab:g")).toBe(200);
  await expect(login(service, { username: "greeter", scope: "flows.write" })).rejects.toThrow("invalid_scope");
  await expect(login(service, { username: "greeter", scope: "flows.write@tab:i" })).rejects.toThrow("invalid_scope");
  expect(await withScope("greeter", "flows.write@tab:Greetings")).toBe(200);
  expect(await withScope("admin", "flows.write@tab:Order%20entry")).toBe(401);
  await expect(login(service, { scope: "flows.write@tab:%" })).rejects.toThrow("invalid_scope");
  // A plan of credentials could be used to guess those of other tabs.
  const body = JSON.stringify({ flows, credentials: { ir: { user: "guess" } } });
  const plan = service.send("POST", "/flows:plan", { headers: { ...greeter, ...json, ...v2 }, body });
  expect((await plan).headers["www-authenticate"]).toContain('scope="flows.write"');
});
