import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { functionNode, type Node, reporter, tab } from "../e2e/flow-builders.ts";
import { bearer } from "../e2e/rest.ts";
import { type Service, startService, withoutRuntime } from "../e2e/service.ts";
import { login, user } from "../e2e/users.ts";
import { createFolder, type Folder } from "../store/builders.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

const comment = (id: string, name = id): Node => ({ id, type: "comment", z: "t", x: 1, y: 1, name });
const flows = [{ ...tab("t"), label: "Invoices" }, comment("c"), reporter("r", "t")];

let folder: Folder;
const fileOf = async (nodes: readonly Node[]): Promise<string> => {
  const path = join(folder.path, "flows.json");
  await writeFile(path, JSON.stringify(nodes));
  return path;
};
beforeAll(async () => void (folder = await createFolder()));
afterAll(() => folder?.[Symbol.asyncDispose]());

describe("proposals", () => {
  let service: Service;
  let tokens: Record<string, string>;

  beforeAll(async () => {
    const users = [
      user("ada", ["read", "flows.propose"]),
      user("bob", ["read", "flows.approve"]),
      user("admin", ["*", "flows.deploy_unapproved"]),
    ];
    const config = { ...withoutRuntime, adminAuth: { users }, approvals: { required: ["Invoices"] } };
    service = await startService({ config });
    const scopes = { ada: "read flows.propose", bob: "read flows.approve", admin: "* flows.deploy_unapproved" };
    const entries = Object.entries(scopes).map(
      async ([username, scope]) => [username, await login(service, { username, scope })] as const,
    );
    tokens = Object.fromEntries(await Promise.all(entries));
  });
  afterAll(() => service?.[Symbol.asyncDispose]());
  beforeEach(() => deploy(service, { flows }, "full", bearer(tokens["admin"] ?? "")));

  const envOf = (who: string) => ({ FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN: tokens[who] ?? "" });
  const flowgate = (who: string, ...args: string[]): Promise<Outcome> => runCommand(args, { env: envOf(who) });

  type Proposal = { readonly id: string; readonly digest: string };

  async function propose(nodes: readonly Node[], ...flags: string[]): Promise<Proposal> {
    const { code, stdout, stderr } = await flowgate("ada", "propose", await fileOf(nodes), "-o", "json", ...flags);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return JSON.parse(stdout) as Proposal;
  }

  test("shows the plan of what it proposes, and what comes next", async () => {
    const file = await fileOf([...flows, comment("new")]);
    const { code, stdout, stderr } = await flowgate("ada", "propose", file, "-m", "new tariff", "--type", "nodes");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^1 added, 0 removed, 0 changed\n/);
    expect(stdout).toMatch(
      /\nproposal [\da-f]{16}\nState +open\nProposed +\S+ \S+\nBy +ada\nMessage +new tariff\nChanges +Invoices\nBase +\S{8}\nType +nodes\nExpires +\S+ \S+\nDigest +[\da-f]{64}\n/,
    );
    expect(stdout).toMatch(/\nAnother user approves it with: flowgate proposal approve [\da-f]{16}\n/);
    const listed = await flowgate("bob", "proposal", "list", "--state", "open");
    expect(listed.stdout).toMatch(/^ID +STATE +.*\n[\da-f]{16} +open +\S+ \S+ +ada +\S+ \S+ +Invoices +new tariff\n/);
  });

  test("does not propose what is active already, and says where the server has other flows than expected", async () => {
    const same = await flowgate("ada", "propose", await fileOf(flows));
    expect(same).toMatchObject({ code: 0, stderr: "" });
    expect(same.stdout).toMatch(/^No changes: these flows are active as revision \S{8}\. Nothing was proposed\.\n$/);
    const { stdout } = await flowgate("admin", "history", "-n", "2", "-o", "json");
    const [, earlier] = (JSON.parse(stdout) as { revisions: { rev: string }[] }).revisions;
    const late = await flowgate("ada", "propose", await fileOf([comment("x")]), "--rev", earlier?.rev ?? "");
    expect(late).toMatchObject({ code: 3, stdout: "" });
    expect((await flowgate("ada", "propose")).code).toBe(1);
  });

  test("carries the modules of a file, which it shows with their state", async () => {
    const path = join(folder.path, "with-modules.json");
    await writeFile(path, JSON.stringify({ flows, modules: [{ name: "contrib-one", version: "1.0.0" }] }));
    const { code, stdout, stderr } = await flowgate("ada", "propose", path);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("module: contrib-one@1.0.0, missing\n");
    expect(stdout).toMatch(/\nChanges +modules only\nModules +contrib-one 1\.0\.0\n/);
    const [, id = ""] = /\nproposal ([\da-f]{16})\n/.exec(stdout) ?? [];
    const shown = (await flowgate("bob", "proposal", "show", id)).stdout;
    expect(shown).toMatch(/\nModules +contrib-one 1\.0\.0\n[^]*module: contrib-one@1\.0\.0, missing\n/);
    const refused = await flowgate("bob", "proposal", "approve", id, "--yes");
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("lacks the permission modules.write");
  });

  test("carries credentials of someone who may not deploy, which are shown by name", async () => {
    const { id } = await propose(
      flows.map((node) => (node.id === "r" ? { ...node, credentials: { user: "s3cret" } } : node)),
    );
    const { code, stdout } = await flowgate("bob", "proposal", "show", id);
    expect(code).toBe(0);
    expect(stdout).toMatch(/credentials.*user/);
    expect(stdout).not.toContain("s3cret");
  });

  test("is approved by its digest, without a question, and names both in the history", async () => {
    const { id, digest } = await propose([...flows, comment("approved")], "-m", "why");
    const own = await flowgate("ada", "proposal", "approve", id, "--digest", digest);
    expect(own.code).toBe(1);
    expect(own.stderr).toContain("lacks the permission flows.approve");
    const unattended = await flowgate("bob", "proposal", "approve", id);
    expect(unattended).toMatchObject({ code: 1, stdout: "" });
    expect(unattended.stderr).toContain("name what was reviewed with --digest");
    const other = await flowgate("bob", "proposal", "approve", id, "--digest", "0".repeat(64));
    expect(other.code).toBe(3);
    expect(other.stderr).toContain("its digest differs from the request's");
    const approved = await flowgate("bob", "proposal", "approve", id.slice(0, 8), "--digest", digest, "-m", "fine");
    expect(approved).toMatchObject({
      code: 0,
      stderr: "",
      stdout: expect.stringMatching(/^Deployed revision \S{8}\./),
    });
    const shown = (await flowgate("bob", "show")).stdout;
    expect(shown).toMatch(new RegExp(`\nBy +ada, 127\\.0\\.0\\.1, connect\nApproved by +bob, proposal ${id}\n`));
    expect((await flowgate("bob", "proposal", "show", id)).stdout).toMatch(
      /\nState +approved\n[^]*\nClosed +\S+ \S+ by bob\nReason +fine\nRevision +\S{22}\n/,
    );
    const again = await flowgate("bob", "proposal", "approve", id, "--yes");
    expect(again.code).toBe(3);
    expect(again.stderr).toMatch(/it was approved by "bob" at \S+ as revision /);
  });

  test("is approved after a question at a terminal, if the answer is yes", needsTerminal, async () => {
    const { id } = await propose([...flows, comment("asked")]);
    const question = "Approve this, and deploy it";
    const declined = await atTerminal(["proposal", "approve", id], [[question, "n"]], envOf("bob"));
    expect(declined).toMatchObject({ code: 1, shown: expect.stringContaining("Nothing was approved.") });
    const approved = await atTerminal(["proposal", "approve", id], [[question, "y"]], envOf("bob"));
    expect(approved).toMatchObject({ code: 0, shown: expect.stringMatching(/Deployed revision \S{8}\./) });
  });

  test("says when it is stale", async () => {
    const { id } = await propose([...flows, comment("late")]);
    await deploy(service, { flows: [...flows, comment("theirs")] }, "nodes", bearer(tokens["admin"] ?? ""));
    const { code, stderr } = await flowgate("bob", "proposal", "approve", id, "--yes");
    expect(code).toBe(3);
    expect(stderr).toMatch(
      /^flowgate: proposal [\da-f]+: its base was replaced, the active revision is "\S+": propose the change again/,
    );
    expect((await flowgate("bob", "proposal", "list", "--state", "stale")).stdout).toContain(id);
  });

  test("is rejected by another user, and withdrawn by its own", async () => {
    const first = await propose([...flows, comment("rejected")]);
    const rejected = await flowgate("bob", "proposal", "reject", first.id, "-m", "no");
    expect(rejected).toEqual({ code: 0, stderr: "", stdout: `Rejected proposal ${first.id}.\n` });
    const second = await propose([...flows, comment("withdrawn")]);
    const withdrawn = await flowgate("ada", "proposal", "withdraw", second.id);
    expect(withdrawn).toEqual({ code: 0, stderr: "", stdout: `Withdrew proposal ${second.id}.\n` });
    const { code, stderr } = await flowgate("bob", "proposal", "approve", second.id, "--yes");
    expect([code, stderr]).toEqual([3, expect.stringContaining('it was withdrawn by "ada"')]);
    expect(await flowgate("bob", "proposal", "show", "unknown")).toEqual({
      code: 1,
      stdout: "",
      stderr: "flowgate: unknown: there is no such proposal. List them with flowgate proposal list.\n",
    });
  });

  test("is what a refused deployment recommends, also of an import", async () => {
    const change = await fileOf([...flows, comment("direct")]);
    const write = { env: { ...envOf("admin"), FLOWGATE_TOKEN: await login(service, { scope: "*" }) } };
    const deployed = await runCommand(["deploy", change], write);
    expect(deployed.code).toBe(1);
    expect(deployed.stderr).toContain(
      'The deployment would change the tab "Invoices" ("t"), which needs the approval of a second person (approvals.required): propose it, for example with flowgate propose',
    );
    const imported = await runCommand(["import", folder.path, "--yes"], write);
    expect([imported.code, imported.stderr]).toEqual([
      1,
      expect.stringContaining("propose it, for example with flowgate propose"),
    ]);
  });
});

describe("a token with flows.read and flows.write only", () => {
  let service: Service;
  let env: Record<string, string>;

  beforeAll(async () => {
    const adminAuth = { users: [user("robot", "*")] };
    service = await startService({ config: { adminAuth, runtime: { freshProcess: "never" } } });
    const FLOWGATE_TOKEN = await login(service, { username: "robot", scope: "flows.read flows.write" });
    env = { FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN };
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env });

  test("suffices for a deployment with its outcome and the reason, and to see both later", async () => {
    const good = [tab("f"), functionNode("n", { z: "f" })];
    expect(await flowgate("deploy", await fileOf(good), "--wait", "0")).toMatchObject({
      code: 0,
      stderr: "",
      stdout: expect.stringMatching(/Deployed revision \S{8}\. Its flows are running\.\n$/),
    });
    const running = await flowgate("status");
    expect(running).toMatchObject({ code: 0, stderr: "" });
    expect(running.stdout).toMatch(/^Server +http\S+\nFlows +running\nRevision +\S{22}\n$/);
    const bad = [tab("f"), functionNode("n", { z: "f", initialize: `node.error("the tariff is missing")` })];
    const reason = "nodes logged errors while they were started: function n";
    const failed = await flowgate("deploy", await fileOf(bad), "--rev", "@");
    expect([failed.code, failed.stderr]).toEqual([5, expect.stringContaining(reason)]);
    const status = await flowgate("status", "-o", "json");
    expect(status.code).toBe(5);
    const { revision } = JSON.parse(status.stdout) as { revision: { rev: string; outcomeMessage: string } };
    expect(revision).toMatchObject({ outcome: "degraded", outcomeMessage: expect.stringContaining(reason) });
    const unchanged = await flowgate("deploy", await fileOf(bad), "--rev", revision.rev);
    expect([unchanged.code, unchanged.stderr]).toEqual([5, expect.stringContaining(reason)]);
    const undone = await flowgate("deploy", await fileOf([...bad, tab("g")]), "--type", "full", "--undo-on-failure");
    expect([undone.code, undone.stderr]).toEqual([4, expect.stringContaining(reason)]);
    expect((await flowgate("whoami")).stdout).toContain("flows.read flows.write");
  });

  test("names the active revision by the beginning of its rev", async () => {
    const deployed = await flowgate("deploy", await fileOf([tab("a")]), "-o", "json", "--wait", "0", "--force");
    const { rev } = JSON.parse(deployed.stdout) as { rev: string };
    for (const name of [rev.slice(0, 8), "@", "active", rev]) {
      const next = await fileOf([tab("a")]);
      expect(await flowgate("deploy", next, "--rev", name)).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(`No changes: revision ${rev.slice(0, 8)} remains active.`),
      });
    }
    const stale = await flowgate("deploy", await fileOf([tab("b")]), "--rev", "unknown", "--yes");
    expect([stale.code, stale.stderr]).toEqual([3, expect.stringContaining("is active. Nothing was deployed.")]);
    const empty = await flowgate("deploy", await fileOf([tab("b")]), "--rev", "", "--yes");
    expect([empty.code, empty.stderr]).toEqual([1, expect.stringContaining("--rev: is empty.")]);
  });

  test("is refused nothing that commands show beside their results", async () => {
    const bad = [tab("r"), functionNode("n", { z: "r", initialize: `node.error("the tariff is missing")` })];
    await flowgate("whoami");
    await flowgate("status", "--failing");
    expect(await flowgate("deploy", await fileOf(bad), "--rev", "@", "--force")).toMatchObject({ code: 5 });
    await flowgate("export", join(folder.path, "exported"));
    const headers = bearer(await login(service, { username: "robot", scope: "audit.read" }));
    const denied = await service.send("GET", "/audit?kind=permission_denied", { headers });
    expect(denied.json()).toEqual({ entries: [] });
  });
});
