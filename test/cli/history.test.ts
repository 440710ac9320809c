import { afterAll, beforeAll, expect, test } from "vitest";
import { functionNode, type Node, tab } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { login, user } from "../e2e/users.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

let service: Service;
/** Of the revisions below, oldest first. */
const revs: string[] = [];
let env: Record<string, string>;

const withPrice = (price: number): Node[] => [
  tab("T"),
  functionNode("f", { z: "T", name: "price", func: `msg.payload = ${price};\nreturn msg;` }),
];

beforeAll(async () => {
  const users = [user("ada", "*"), user("reader", "read")];
  service = await startService({
    config: { adminAuth: { type: "credentials", users }, runtime: { freshProcess: "never" } },
  });
  env = { FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN: await login(service, { username: "ada" }) };
  for (const [price, message] of [
    [1, "one"],
    [2, "two"],
    [3, ""],
  ] as const) {
    revs.push(await deploy(withPrice(price), message));
  }
  // Headers can't contain it.
  await flowgate("message", "@~1", "two \x1b[2J");
});
afterAll(() => service?.[Symbol.asyncDispose]());

const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env });
const bearer = (): Record<string, string> => ({ authorization: `Bearer ${env["FLOWGATE_TOKEN"]}` });

async function deploy(flows: readonly Node[], message: string, type = "full"): Promise<string> {
  const headers = {
    ...bearer(),
    "content-type": "application/json",
    "service-api-version": "v2",
    "service-deployment-type": type,
    ...(message !== "" && { "service-deployment-message": message }),
  };
  return (
    (await service.send("POST", "/flows", { headers, body: JSON.stringify({ flows }) })).json() as { rev: string }
  ).rev;
}

async function active(): Promise<Node[]> {
  return (await service.send("GET", "/flows", { headers: bearer() })).json() as Node[];
}

test("lists revisions, newest first", async () => {
  const { code, stdout, stderr } = await flowgate("history", "--limit", "3");
  const [head = "", ...rows] = stdout.trimEnd().split("\n");
  expect({ code, head: head.trim().split(/ {2,}/), stderr }).toEqual({
    code: 0,
    head: ["REV", "TIME", "USER", "CAUSE", "OUTCOME", "MESSAGE"],
    stderr: "flowgate: only the first 3 are shown: use a larger --limit.\n",
  });
  const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d`;
  const [first = "", second = "", third = ""] = revs.map((rev) => rev.slice(0, 8));
  expect(rows).toEqual([
    expect.stringMatching(new RegExp(`^\\*  ${third}  ${time}  ada          running$`)),
    expect.stringMatching(new RegExp(`^   ${second}  ${time}  ada          running  two \\\\x1b\\[2J$`)),
    expect.stringMatching(new RegExp(`^   ${first}  ${time}  ada          running  one$`)),
  ]);
});

test("filters the history", async () => {
  expect((await flowgate("history", "--user", "nobody")).stdout).toBe("There are no such revisions.\n");
  expect((await flowgate("history", "--outcome", "failed")).stdout).toBe("There are no such revisions.\n");
  expect((await flowgate("history", "--until", "2020-01-01")).stdout).toBe("There are no such revisions.\n");
  const { stdout } = await flowgate("history", "--since", "2020-01-01", "--user", "ada", "-o", "json");
  const { revisions } = JSON.parse(stdout) as { revisions: { rev: string; cause: string }[] };
  expect(revisions.slice(0, 3)).toMatchObject(revs.toReversed().map((rev) => ({ rev, cause: "deployment" })));
});

test("shows a revision and what it changed", async () => {
  const [first = "", second = ""] = revs;
  const { code, stdout } = await flowgate("show", second.slice(0, 6));
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`^revision ${second}\nDeployed  .*\nBy        ada, 127\\.0\\.0\\.1, rest\n`));
  expect(stdout).toContain(`Outcome   running\nParent    ${first}\n`);
  expect(stdout).toContain(String.raw`Message   two \x1b[2J`);
  expect(stdout).toContain("        - msg.payload = 1;\n        + msg.payload = 2;\n");
  const json = JSON.parse((await flowgate("show", "@~1", "-o", "json")).stdout) as object;
  expect(json).toMatchObject({ revision: { rev: second, user: "ada" }, diff: { base: first, rev: second } });
  const flows = JSON.parse((await flowgate("get", "flows", "--rev", "@~1", "-o", "json")).stdout) as object;
  expect(flows).toMatchObject({ rev: second });
});

test.each([
  [["show", "nope"], /^flowgate: nope: there is no such revision\. List them with flowgate history\.\n$/],
  [
    ["rollback", "@~999"],
    /^flowgate: @~999: the history has \d+ revisions only\. List them with flowgate history\.\n$/,
  ],
  [["show", ""], /^flowgate: : \d revisions begin with it, such as \S+ and \S+\. Specify more characters\.\n$/],
  [
    ["history", "--limit", "0"],
    /It must be a whole number from 1 to 9999999\..*\nflowgate: See flowgate history --help\.\n$/,
  ],
])("rejects %j", async (args, stderr) => {
  expect(await flowgate(...args)).toEqual({ code: 1, stdout: "", stderr: expect.stringMatching(stderr) });
});

test("pins a revision and changes its message", async () => {
  const rev = revs[0] ?? "";
  expect(await flowgate("pin", rev, "-m", "release 12")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^revision \S{8} \("release 12", by ada, .*\) is pinned\.\n$/),
  });
  expect((await flowgate("history", "--pinned")).stdout).toMatch(/ {2}\[pinned\] release 12\n$/);
  expect((await flowgate("message", rev, "one")).stdout).toContain('("one", by ada');
  expect((await flowgate("unpin", rev)).stdout).toContain("is not pinned.");
  expect((await flowgate("history", "--pinned")).stdout).toBe("There are no such revisions.\n");
});

test("a user without the permission is told what to do", async () => {
  const token = await login(service, { username: "reader", scope: "read" });
  expect(await runCommand(["undo"], { env: { ...env, FLOWGATE_TOKEN: token } })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/flows\.write.* flowgate whoami /),
  });
  expect(await active()).toEqual(withPrice(3));
});

test("undoes a deployment, and restores an earlier one", async () => {
  const undone = await flowgate("undo", "-m", "wrong price", "--type", "nodes");
  expect(undone).toEqual({
    code: 0,
    stdout: expect.stringMatching(
      /\n {8}- msg\.payload = 3;\n {8}\+ msg\.payload = 2;\n\nDeployed revision \S{8}\. Its flows are running\.\n$/,
    ),
    stderr: "",
  });
  expect(await active()).toEqual(withPrice(2));
  const { stdout } = await flowgate("show", "@", "-o", "json");
  expect(JSON.parse(stdout)).toMatchObject({
    revision: { cause: "undo", message: "wrong price", deploymentType: "nodes", restoredRev: revs[1] },
  });

  expect((await flowgate("show", "@")).stdout).toContain(`\nCause     undo, back to ${revs[1]}\n`);
  await flowgate("undo");
  await flowgate("undo");

  const restored = await flowgate("rollback", revs[0]?.slice(0, 10) ?? "", "-o", "json");
  expect(restored.code).toBe(0);
  expect(JSON.parse(restored.stdout)).toMatchObject({ outcome: "running" });
  expect(await active()).toEqual(withPrice(1));
  const { stdout: history } = await flowgate("history", "--limit", "2");
  expect(history).toMatch(
    new RegExp(`  restore  .*  Restore of ${revs[0]?.slice(0, 8)}: one\n.*  undo  .*  Undo of \\S{8}: Undo o…\n`),
  );
  expect((await flowgate("rollback", revs[0] ?? "")).stdout).toMatch(/^No changes: revision \S{8} remains active\.\n$/);
});

test("names the target of an undo, its outcome and what restarts", async () => {
  const good = await deploy(withPrice(5), "five");
  const bad = await deploy(withPrice(6), "six", "nodes");
  const undone = await flowgate("undo");
  expect(undone.stdout).toMatch(
    new RegExp(
      `^Undo of +revision ${bad.slice(0, 8)} \\("six", by ada, .*\\)\nBack to +revision ${good.slice(0, 8)} \\("five", by ada, .*\\)\nOutcome then +running\n` +
        "Nodes to restart +the changed ones \\(type nodes\\)\n\n0 added, 0 removed, 1 changed\n",
    ),
  );
  const { stdout } = await flowgate("show", "@", "-o", "json");
  expect(JSON.parse(stdout)).toMatchObject({
    revision: { cause: "undo", deploymentType: "nodes", message: `Undo of ${bad.slice(0, 8)}: six` },
  });
  await deploy([tab("T"), { id: "m", type: "not-installed", z: "T", x: 1, y: 1 }], "broken");
  await deploy(withPrice(5), "repaired");
  expect((await flowgate("undo", "--type", "full")).stdout).toMatch(
    /\nOutcome then +failed: missing node types: not-installed\nNodes to restart +all \(type full\)\n/,
  );
});

test("asks before an undo at a terminal, and shows colours", needsTerminal, async () => {
  await deploy(withPrice(8), "eight");
  await deploy(withPrice(9), "nine");
  expect(await atTerminal(["undo"], [["Undo revision", "n"]], env)).toMatchObject({
    code: 1,
    shown: expect.stringContaining("\x1b[31m        - msg.payload = 9;\x1b[39m\r\n"),
  });
  expect(await active()).toEqual(withPrice(9));
  expect(await atTerminal(["undo"], [["Undo revision", "y"]], env)).toMatchObject({ code: 0 });
  expect(await active()).toEqual(withPrice(8));
  const { shown } = await atTerminal(["history", "-n", "1"], [], env);
  expect(shown).toContain("\x1b[32mrunning\x1b[39m");
});
