import type * as WorkflowParser from "@actions/workflow-parser";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { runnerImport } from "vite";
import { parse } from "yaml";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, type Node } from "../e2e/flow-builders.ts";
import { bearer } from "../e2e/rest.ts";
import { type Service, startService } from "../e2e/service.ts";
import { login, user } from "../e2e/users.ts";
import { readExample } from "./example.ts";
import { createRepository, type Repository } from "./repository.ts";

// The pipelines of examples/, with the same service.

const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
let service: Service;
let token: string;
let readToken: string;

beforeAll(async () => {
  service = await startService({
    config: {
      adminAuth: { users: [user("admin", "*")] },
      limits: { eventLoopDelayMs: 0 },
      runtime: { freshProcess: "never" },
    },
  });
  token = await login(service, {});
  readToken = await login(service, { scope: "flows.read" });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const answering = (text: string): Node[] => endpoint("/answer", `msg.payload = "${text}"`);
const answer = (): Promise<string> => service.get("/answer", bearer(token));
const newest = async () => {
  const reply = await service.send("GET", "/revisions?pageSize=1", { headers: bearer(token) });
  return (reply.json() as { revisions: { message: string; cause: string }[] }).revisions[0];
};

/** The example in a repository with the flows that are active, of which one word is changed. */
async function createChange(example: string, recorded: readonly string[]): Promise<Repository> {
  const repository = await createRepository(example, { recorded, env: { FLOWGATE_SERVER: service.url } });
  await repository.succeed("flowgate export flows", { FLOWGATE_TOKEN: token });
  await repository.succeed("git add flows && git commit --quiet --message 'Export the flows'");
  await repository.succeed("sed -i s/before/after/ $(grep --files-with-matches --recursive before flows)");
  await repository.succeed("git commit --quiet --all --message 'Answer otherwise'");
  return repository;
}

const shortenWait = (script: string): string => script.replace("--wait 30", "--wait 1");

beforeEach(async () => {
  await deploy(service, { flows: answering("before") }, "full", bearer(token));
});

describe("GitHub Actions", () => {
  const file = "github-actions/.github/workflows/flows.yaml";

  test("is a valid workflow", async () => {
    const content = await readExample(file);
    // Vite loads it, because it imports JSON without the attribute that Node requires.
    const { module } = await runnerImport<typeof WorkflowParser>("@actions/workflow-parser", {
      configFile: false,
      logLevel: "silent",
      ssr: { noExternal: true },
    });
    const { NoOperationTraceWriter, parseWorkflow } = module;
    const errorsOf = (content: string) =>
      parseWorkflow({ name: file, content }, new NoOperationTraceWriter()).context.errors.getErrors();
    expect(errorsOf(content)).toEqual([]);
    expect(errorsOf(content.replace("runs-on", "run-on"))).not.toEqual([]);
  });

  type Job = {
    readonly env: Readonly<Record<string, string>>;
    readonly steps: readonly { readonly run?: string; readonly env?: Readonly<Record<string, string>> }[];
  };

  const contexts: () => Readonly<Record<string, string>> = () => ({
    "vars.FLOWGATE_SERVER": service.url,
    "secrets.FLOWGATE_TOKEN": token,
    "secrets.FLOWGATE_READ_TOKEN": readToken,
    "github.token": "the token of GitHub",
    "github.event.pull_request.html_url": "https://github.example/pull/1",
  });

  /** Runs the steps of a job until one fails, and returns its exit code. */
  async function runJob(name: string, repository: Repository): Promise<number | null> {
    const workflow = parse(await readExample(file)) as Pick<Job, "env"> & { jobs: Record<string, Job> };
    const job = workflow.jobs[name];
    const evaluate = (text: string) =>
      text.replaceAll(/\$\{\{ ([\w.]+) \}\}/g, (_, expression: string) => contexts()[expression] ?? `no ${expression}`);
    for (const { run, env } of job?.steps ?? []) {
      const values = Object.entries({ ...workflow.env, ...job?.env, ...env });
      const evaluated = Object.fromEntries(values.map(([name, value]) => [name, evaluate(value)]));
      const { code } = run === undefined ? { code: 0 } : await repository.run(shortenWait(run), evaluated);
      if (code !== 0) {
        return code;
      }
    }
    return 0;
  }

  test("shows the plan of a pull request, and deploys nothing", async () => {
    await using repository = await createChange("github-actions", ["npm", "gh"]);
    const before = await newest();
    expect(await runJob("plan", repository)).toBe(0);
    expect(await repository.calls("npm")).toEqual([`install --global flowgate@${version}`]);
    expect(await repository.calls("gh")).toEqual([
      "pr comment https://github.example/pull/1 --body-file plan.md --edit-last --create-if-none",
    ]);
    expect(await repository.succeed("cat plan.md")).toMatch(/^```\n[^]*0 added, 0 removed, 1 changed[^]*\n```\n$/);
    expect(await newest()).toEqual(before);
  });

  test("shows long values whole, as far as a comment can have them", async () => {
    await using repository = await createChange("github-actions", ["npm", "gh"]);
    const lengthen = (count: number) =>
      repository.succeed(
        `sed -i "s/after/after$(yes x | head -${count} | tr -d '\\n')/" $(grep --files-with-matches --recursive after flows)`,
      );
    await lengthen(500);
    expect(await runJob("plan", repository)).toBe(0);
    expect(await repository.succeed("cat plan.md")).toContain("x".repeat(500));
    await lengthen(70_000);
    expect(await runJob("plan", repository)).toBe(0);
    const comment = await repository.succeed("cat plan.md");
    expect(comment.length).toBeLessThan(65_536);
    expect(comment).toMatch(/x\n```\nThe log of the job has the whole plan\.\n$/);
  });

  test("fails on flows that are not valid, and comments a plan that would not run", async () => {
    await using repository = await createChange("github-actions", ["npm", "gh"]);
    await repository.succeed("sed -i s/function/missing/ $(grep --files-with-matches --recursive after flows)");
    expect(await runJob("plan", repository)).toBe(4);
    expect(await repository.succeed("cat plan.md")).toContain("missing type: missing");
    await repository.succeed("echo {{ >> flows/index.yaml");
    expect(await runJob("plan", repository)).toBe(1);
    expect(await repository.calls("gh")).toHaveLength(1);
  });

  test("deploys what is merged", async () => {
    await using repository = await createChange("github-actions", ["npm"]);
    expect(await runJob("deploy", repository)).toBe(0);
    expect(await answer()).toBe("after");
    const commit = await repository.succeed("git log -1 --format='%h %s'");
    expect((await newest())?.message).toBe(commit.trim());
    expect(commit).toContain("Answer otherwise");
  });
});

describe("GitLab CI", () => {
  type Pipeline = Readonly<
    Record<string, { readonly before_script?: readonly string[]; readonly script?: readonly string[] }>
  >;

  /** Runs the script of a job, as a runner does: all lines in one shell. */
  async function runJob(name: string, repository: Repository, env: Readonly<Record<string, string>>) {
    const pipeline = parse(await readExample("gitlab-ci/.gitlab-ci.yml")) as Pipeline;
    const lines = [...(pipeline["default"]?.before_script ?? []), ...(pipeline[name]?.script ?? [])];
    return await repository.run(shortenWait(lines.join("\n")), env);
  }

  /** The part of GitLab's API that the pipeline calls. */
  async function openGitLab(): Promise<AsyncDisposable & { readonly url: string; readonly notes: readonly string[] }> {
    const notes: string[] = [];
    const server = createServer((request, response) => {
      void text(request).then((body) => {
        notes.push(`${request.method} ${request.url} ${request.headers["private-token"]?.toString()}\n${body}`);
        response.writeHead(201).end("{}");
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v4`,
      notes,
      async [Symbol.asyncDispose]() {
        server.close();
        server.closeAllConnections();
        await once(server, "close");
      },
    };
  }

  test("is a valid pipeline, whose rules select the job", async () => {
    await using repository = await createRepository("gitlab-ci", {});
    const select = (variables: string) =>
      repository.run(
        `gitlab-ci-local --list-csv --ignore-predefined-vars CI_PIPELINE_SOURCE,CI_COMMIT_BRANCH ${variables}`,
      );
    expect((await select("--variable CI_PIPELINE_SOURCE=push")).stdout).toMatch(/^name;.*\ndeploy;.*\n$/);
    const request = "--variable CI_PIPELINE_SOURCE=merge_request_event --variable CI_COMMIT_BRANCH=";
    expect((await select(request)).stdout).toMatch(/^name;.*\nplan;.*\n$/);
    await repository.succeed("sed -i s/resource_group/resource_groups/ .gitlab-ci.yml");
    expect((await select("")).stderr).toContain("'resource_groups' property is not expected to be here");
  });

  test("shows the plan of a merge request, and deploys nothing", async () => {
    await using repository = await createChange("gitlab-ci", ["npm"]);
    await using gitlab = await openGitLab();
    const before = await newest();
    const result = await runJob("plan", repository, {
      FLOWGATE_READ_TOKEN: readToken,
      CI_MERGE_REQUEST_IID: "7",
      CI_PROJECT_ID: "3",
      CI_API_V4_URL: gitlab.url,
      GITLAB_TOKEN: "the token of GitLab",
    });
    expect(result).toMatchObject({ code: 0, stderr: "" });
    expect(await repository.calls("npm")).toEqual([`install --global flowgate@${version}`]);
    expect(gitlab.notes).toHaveLength(1);
    expect(gitlab.notes[0]).toMatch(/^POST \/api\/v4\/projects\/3\/merge_requests\/7\/notes the token of GitLab\n/);
    expect(gitlab.notes[0]).toContain("0 added, 0 removed, 1 changed");
    expect(await newest()).toEqual(before);
  });

  test("deploys what is merged, and undoes it if it fails", async () => {
    await using repository = await createChange("gitlab-ci", ["npm"]);
    expect(await runJob("deploy", repository, { FLOWGATE_TOKEN: token })).toMatchObject({ code: 0 });
    expect(await answer()).toBe("after");
    expect((await newest())?.message).toContain("Answer otherwise");

    const breakWith = async (script: string) => {
      await repository.succeed(`sed -i '${script}' $(grep --files-with-matches --recursive after flows)`);
      await repository.succeed("git commit --quiet --all --message Break");
      expect(await runJob("deploy", repository, { FLOWGATE_TOKEN: token })).toMatchObject({ code: 4 });
      expect(await answer()).toBe("after");
      return (await newest())?.cause;
    };
    expect(await breakWith("s/initialize: .*/initialize: throw new Error(1)/")).toBe("automatic_undo");
    // Refused, since the plan shows that it would not run.
    const before = await newest();
    await breakWith("s/function/missing/");
    expect(await newest()).toEqual(before);
  });
});
