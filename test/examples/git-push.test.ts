import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, type Node } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { codeBlocks, readExample } from "./example.ts";
import { createRepository, type Repository } from "./repository.ts";

let service: Service;
let repository: Repository;
let exported: string;

/** The commands of the README, with the wait of the hook shortened. */
beforeAll(async () => {
  service = await startService({ config: { limits: { eventLoopDelayMs: 0 }, runtime: { freshProcess: "never" } } });
  exported = await deploy(service, { flows: answering("exported") });
  repository = await createRepository("git-push", { env: { FLOWGATE_SERVER: service.url, WAIT: "1" } });
  for (const commands of codeBlocks(await readExample("git-push/README.md"), "sh")) {
    await repository.succeed(commands);
  }
});
afterAll(async () => {
  await repository?.[Symbol.asyncDispose]();
  await service?.[Symbol.asyncDispose]();
});

const answering = (text: string): Node[] => endpoint("/answer", `msg.payload = "${text}"`);
const newest = async () => {
  const { revisions } = (await service.send("GET", "/revisions?pageSize=1")).json() as { revisions: object[] };
  return revisions[0];
};

/** Replaces a word in the files of the flows, and pushes that. */
const push = (word: string, replacement: string) =>
  repository.run(`cd work
    sed -i 's/${word}/${replacement}/' $(grep --files-with-matches --recursive '${word}' flows)
    git commit --quiet --all --message 'Write ${replacement}'
    git push origin HEAD:main`);

test("deploys nothing if what is pushed is active", async () => {
  expect(await newest()).toMatchObject({ rev: exported });
});

test("deploys what is pushed, and shows the change to the one who pushes", async () => {
  const { code, stderr } = await push("exported", "pushed");
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("1 changed") as unknown });
  expect(await service.get("/answer")).toBe("pushed");
  expect(await newest()).toMatchObject({ message: expect.stringMatching(/^[0-9a-f]+ Write pushed$/) as unknown });
});

test("refuses invalid flows, with the place of the error", async () => {
  const before = await newest();
  const { code, stderr } = await push("type: function", "type: [function]");
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/flows\/\S+:\d+:\d+: type: .*pre-receive hook declined/s) as unknown,
  });
  expect(await newest()).toEqual(before);
  await repository.succeed("cd work && git reset --quiet --hard HEAD~1");
});

test("reports what was changed on the service only", async () => {
  const drift = () => repository.run("./drift.sh flows.git");
  expect(await drift()).toEqual({ code: 0, stdout: "", stderr: "" });
  await deploy(service, { flows: answering("drifted") });
  const { code, stdout } = await drift();
  expect(code).toBe(2);
  expect(stdout).toMatch(/^The service runs other flows than those of main[^]*drifted[^]*pushed/);
  const unreachable = await repository.run("./drift.sh flows.git", { FLOWGATE_SERVER: "http://127.0.0.1:1" });
  expect(unreachable).toMatchObject({ code: 1, stdout: "" });
});
