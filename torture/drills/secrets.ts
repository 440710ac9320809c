import { deploy } from "../../test/e2e/deploy.ts";
import { functionNode, installReporter, tab } from "../../test/e2e/flow-builders.ts";
import { bearer } from "../../test/e2e/rest.ts";
import { createSecrets, type Secrets } from "../../test/e2e/secret-canaries.ts";
import { configWithSecrets, exerciseSecrets } from "../../test/e2e/secret-exercise.ts";
import { eventually, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import { openCollector } from "../../test/telemetry/collector.ts";
import type { Drill } from "../drill.ts";
import { readDatabaseFailure, readFiles, readSinks, type Sink } from "../sinks.ts";

export const secretCanaries: Drill = {
  name: "secrets",
  title: "Canaries of all secrets in all outputs",
  promise:
    "No password, token, credential, key or database URL appears in a response, log, error, metric, trace, audit log, database, backup, command line or environment.",
  method:
    "A service at log level `trace` gets random secrets in every place intended for one, and in broken requests, over all protocols. All outputs are searched for them as text, base64 and hexadecimal.",
  limits: "The memory of processes is not searched; core dumps contain secrets.",
  async run({ createFolder, progress }) {
    const secrets = createSecrets();
    const planted = createSecrets();
    const { responses, sinks } = await collectSinks(secrets, planted, await createFolder(), progress);
    const url = `postgres://flowgate:${secrets.secret("password of the database")}@127.0.0.1:1/flowgate`;
    const all = [
      ...responses.map((content) => ({ name: "a response", content })),
      ...sinks,
      await readDatabaseFailure(url, await createFolder()),
    ];
    return {
      loads: [
        { name: "responses", count: responses.length, minimum: 150 },
        { name: "other outputs", count: sinks.length, minimum: 200 },
      ],
      figures: [{ name: "bytes searched", value: all.reduce((sum, { content }) => sum + content.length, 0), unit: "" }],
      violations: [
        ...search(all, secrets),
        ...(responses.some((response) => response.includes('"code":"internal"'))
          ? ["a request was answered as an internal error"]
          : []),
      ],
      controls: [
        control("the label of a tab", ["GET /flows", "a revision"], all, planted),
        control("a warning of a flow", ["the log"], all, planted),
        control("a variable of the environment", ["environ of a process"], all, planted),
      ],
    };
  },
};

function search(sinks: readonly Sink[], { find }: Secrets): string[] {
  const found = sinks.flatMap(({ name, content }) => find(content).map((secret) => `${name} contains ${secret}`));
  return [...new Set(found)];
}

function control(planted: string, expected: readonly string[], sinks: readonly Sink[], canaries: Secrets) {
  const found = search(sinks, canaries).filter((text) => text.endsWith(planted));
  const isComplete = expected.every((name) => found.includes(`${name} contains ${planted}`));
  return { planted: `a canary in ${planted}`, found: isComplete ? found : [] };
}

async function collectSinks(secrets: Secrets, planted: Secrets, dataDir: string, progress: (text: string) => void) {
  await using collector = await openCollector();
  const config = configWithSecrets(secrets);
  await using service = await startService({
    dataDir,
    config: {
      ...config,
      adminAuth: { users: [...config.adminAuth.users, user("auditor", "*", secrets.secret("password of auditor"))] },
      metrics: { port: 0 },
      tracing: { endpoint: collector.endpoint, headers: { authorization: secrets.secret("header for the collector") } },
    },
    env: { CANARY: planted.secret("a variable of the environment") },
    prepare: installReporter,
  });
  progress("sending secrets");
  const responses = await exerciseSecrets(service, secrets);
  const token = await login(service, { username: "auditor", password: secrets.secret("password of auditor") });
  secrets.add("token of auditor", token);
  const warning = `node.warn("${planted.secret("a warning of a flow")}")`;
  const flows = [
    { ...tab("T"), label: planted.secret("the label of a tab") },
    functionNode("warns", { z: "T", initialize: `setTimeout(() => ${warning}, 1)` }),
  ];
  await deploy(service, { flows }, "full", bearer(token));
  await service.untilLogged(new RegExp(planted.secret("a warning of a flow")));
  await eventually(async () => {
    if (collector.spans.length === 0) {
      throw new Error("no spans were exported");
    }
  });
  progress("searching");
  const [, metricsUrl = ""] = /^Metrics.*: (http:\/\/\S+)\/metrics$/m.exec(service.log()) ?? [];
  const running = await readSinks(service, collector, metricsUrl, bearer(token));
  const logged = service.log().length;
  await service.stop();
  const atTheEnd = { name: "the log", content: service.log().slice(logged) };
  return { responses, sinks: [...running, atTheEnd, ...(await readFiles(dataDir))] };
}
