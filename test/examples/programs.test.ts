import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, preview } from "vite";
import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser, openBrowser } from "../e2e/browser.ts";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, type Node, tab } from "../e2e/flow-builders.ts";
import { isMissing } from "../e2e/program.ts";
import { bearer, v2 } from "../e2e/rest.ts";
import { type Service, startService } from "../e2e/service.ts";
import { login, passwordOf, user } from "../e2e/users.ts";
import { go, goEnvironment } from "../go.ts";
import { codeBlocks, copyExample, type Example, readExample } from "./example.ts";
import { execute, type Execution, succeed } from "./execute.ts";
import { hasPython, openPython } from "./python.ts";

// The programs of examples/, each with the same service.

const path = (name: string): string => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));

/** The page of examples/browser, as Vite serves it. */
const page = await servePage();
let service: Service;
let token: string;

beforeAll(async () => {
  const [yaml = ""] = codeBlocks(await readExample("browser/README.md"), "yaml");
  const { cors } = parse(yaml.replace("http://localhost:5173", page.origin)) as object & { cors: object };
  service = await startService({
    config: {
      adminAuth: { users: [user("admin", "*")] },
      cors,
      limits: { eventLoopDelayMs: 0 },
      runtime: { freshProcess: "never" },
    },
  });
  token = await login(service, {});
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await page[Symbol.asyncDispose]();
});

const answering = (text: string): Node[] => endpoint("/answer", `msg.payload = ${JSON.stringify(text)}`);
const failing = [tab("t"), { id: "n", type: "not installed", z: "t", x: 1, y: 1, wires: [] }];
const answer = (): Promise<string> => service.get("/answer", bearer(token));
const deployed = async () => {
  const reply = await service.send("GET", "/flows", { headers: { ...v2, ...bearer(token) } });
  return reply.json() as { flows: Node[]; rev: string };
};

async function servePage(): Promise<AsyncDisposable & { readonly origin: string }> {
  const example = await copyExample("browser");
  const settings = { configFile: false, root: path("browser"), logLevel: "error" } as const;
  const outDir = join(example.folder, "dist");
  await build({ ...settings, build: { outDir, emptyOutDir: true } });
  const server = await preview({ ...settings, build: { outDir }, preview: { port: 0, host: "127.0.0.1" } });
  return {
    origin: new URL(server.resolvedUrls?.local[0] ?? "").origin,
    async [Symbol.asyncDispose]() {
      await server.close();
      await example[Symbol.asyncDispose]();
    },
  };
}

test("TypeScript: deploys over gRPC", async () => {
  const output = await succeed(process.execPath, [path("deploy.ts"), service.url], { env: { TOKEN: token } });
  expect(output).toBe(`Hello from gRPC, revision ${(await deployed()).rev}\n`);
});

describe("shell", () => {
  const run = async (flows: unknown, env: Readonly<Record<string, string>> = {}): Promise<Execution> => {
    await using example = await copyExample("shell");
    await writeFile(join(example.folder, "flows.json"), JSON.stringify(flows));
    return await execute("./deploy.sh", ["flows.json", "by the shell"], {
      cwd: example.folder,
      env: { FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN: token, WAIT: "1", ...env },
    });
  };

  test("deploys flows that run", async () => {
    expect(await run(answering("shell"))).toEqual({ code: 0, stdout: "flows.json runs\n", stderr: "" });
    expect(await answer()).toBe("shell");
    const history = await service.send("GET", "/revisions?pageSize=1", { headers: bearer(token) });
    expect(history.json()).toMatchObject({ revisions: [{ message: "by the shell" }] });
  });

  test("leaves the previous flows if the new ones fail", async () => {
    await run(answering("before"));
    expect(await run(failing)).toEqual({
      code: 4,
      stdout: "",
      stderr: "the flows have failed: undone not installed\n",
    });
    expect(await answer()).toBe("before");
  });

  test("says why nothing was deployed", async () => {
    const { rev } = await deployed();
    expect(await run([{ id: "a" }])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('not deployed, status 400: {"code":"invalid_flows"') as unknown,
    });
    expect(await run([], { FLOWGATE_TOKEN: "" })).toMatchObject({ code: 1, stderr: "not deployed, status 401: \n" });
    expect((await deployed()).rev).toBe(rev);
  });
});

describe.skipIf(isMissing("Go", go !== undefined))("Go", () => {
  let example: Example;
  let program: string;

  beforeAll(async () => {
    example = await copyExample("go");
    program = join(example.folder, "deploy");
    const options = { cwd: example.folder, env: goEnvironment };
    // Its plugins are tools of the module, which buf starts with the go in PATH.
    await succeed("buf", ["generate"], options);
    await succeed(go ?? "", ["build", "-o", program, "."], options);
  });
  afterAll(() => example?.[Symbol.asyncDispose]());

  const run = async (flows: unknown): Promise<Execution> => {
    await writeFile(join(example.folder, "flows.json"), JSON.stringify(flows));
    const args = ["-server", service.url, "-wait", "1", "flows.json"];
    return execute(program, args, { cwd: example.folder, env: { TOKEN: token } });
  };

  test("deploys flows that run, as they are in the file", async () => {
    const flows = answering("Go");
    const result = await run(flows);
    const active = await deployed();
    expect(result).toEqual({ code: 0, stdout: `4 nodes run, revision ${active.rev}\n`, stderr: "" });
    expect(active.flows).toEqual(flows);
    expect(await answer()).toBe("Go");
  });

  test("leaves the previous flows if the new ones fail", async () => {
    await run(answering("before"));
    expect(await run(failing)).toEqual({
      code: 1,
      stdout: "",
      stderr: "the flows do not run: DEPLOYMENT_OUTCOME_UNDONE, missing types [not installed]\n",
    });
    expect(await answer()).toBe("before");
  });
});

describe.skipIf(isMissing("Python's venv", hasPython))("Python", () => {
  let example: Example;
  let python: string;

  beforeAll(async () => {
    [python, example] = await Promise.all([openPython(), copyExample("python")]);
    const [commands = ""] = codeBlocks(await readExample("python/README.md"), "sh");
    const generate = /^mkdir.*\n\.venv\/bin\/python (?:.*\\\n)*.*$/m.exec(commands)?.[0] ?? "";
    await succeed("sh", ["-euc", generate.replace(".venv/bin/python", python)], { cwd: example.folder });
  });
  afterAll(() => example?.[Symbol.asyncDispose]());

  const run = (...args: string[]): Promise<Execution> =>
    execute(python, [join(example.folder, "move_urls.py"), ...args, "--server", `127.0.0.1:${service.port}`], {
      env: { TOKEN: token },
    });
  const request = (url: string): Node => ({ id: "r", type: "http request", z: "t", x: 1, y: 1, url, wires: [[]] });

  test("shows what would change, and then changes it in all nodes", async () => {
    const before = [tab("t"), request("http://old.example/a")];
    const rev = await deploy(service, { flows: before }, "full", bearer(token));
    const plan = await run("http://old.example", "http://new.example");
    expect(plan).toMatchObject({ code: 0, stderr: "" });
    expect(plan.stdout).toContain("0 added, 0 removed, 1 changed");
    expect(await deployed()).toEqual({ flows: before, rev });

    const result = await run("http://old.example", "http://new.example", "--deploy");
    const active = await deployed();
    expect(result).toEqual({ code: 0, stdout: `revision ${active.rev} runs\n`, stderr: "" });
    expect(active.flows).toEqual([tab("t"), request("http://new.example/a")]);
  });

  test("fails if there is nothing to change", async () => {
    expect(await run("http://nowhere.example", "http://new.example")).toEqual({
      code: 1,
      stdout: "",
      stderr: "no node calls http://nowhere.example\n",
    });
  });
});

describe.skipIf(isMissing("Chromium", missingBrowser === undefined))("a page", () => {
  test("shows the deployments and undoes the last one, unless another one was made", async () => {
    await deploy(service, { flows: answering("first") }, "full", bearer(token));
    await deploy(service, { flows: answering("second") }, "full", {
      ...bearer(token),
      "service-deployment-message": "the <b>second</b>",
    });
    await using browser = await openBrowser();
    await using tab = await browser.openTab();
    const undo = tab.page.getByRole("button", { name: "Undo the last deployment" });
    await tab.page.goto(page.origin);
    await tab.page.getByLabel("Server").fill(service.url);
    await tab.page.getByLabel("User").fill("admin");
    await tab.page.getByLabel("Password").fill(passwordOf("admin"));
    await tab.page.getByRole("button", { name: "Connect" }).click();
    const newest = tab.page.locator("#revisions tr").first();
    await newest.filter({ hasText: "the <b>second</b>" }).waitFor();
    expect(await newest.innerText()).toContain("active");

    await undo.click();
    await newest.filter({ hasText: "undone in the browser" }).waitFor();
    expect(await answer()).toBe("first");

    await deploy(service, { flows: answering("third") }, "full", bearer(token));
    await undo.click();
    await tab.page.locator("#status").filter({ hasText: "the active revision is" }).waitFor();
    expect(await answer()).toBe("third");
    expect(tab.complaints.filter((complaint) => !complaint.includes("409"))).toEqual([]);
  });
});
