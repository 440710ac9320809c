import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import bcrypt from "bcryptjs";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { settings } from "../../src/cli/settings.ts";
import { OptionsError, type OptionsInput, parseOptions } from "../../src/options/parse.ts";
import { send } from "../e2e/rest.ts";
import { startService } from "../e2e/service.ts";
import { type Kustomization, type Manifest, findProblems, podOf, probesOf } from "./kubernetes-check.ts";
import { root } from "./stage.ts";

const folder = join(root, "deploy/kubernetes");
const read = (name: string) => readFile(join(folder, name), "utf8");
const kustomization = parse(await read("kustomization.yaml")) as Kustomization;
const configuration = await read("flowgate.yaml");

/** A new copy of the manifests, which a test may change. */
async function readManifests(): Promise<Manifest[]> {
  const texts = await Promise.all([...kustomization.resources, "flow-egress.yaml"].map(read));
  return texts.flatMap((text) =>
    parseAllDocuments(text).map((document) => {
      expect([...document.errors, ...document.warnings]).toEqual([]);
      return document.toJS() as Manifest;
    }),
  );
}

const manifests = await readManifests();
const { pod, container } = podOf(manifests);

/** The file after the edit that its first line describes. */
const completed = configuration.replace(/password: .*/, `password: "${bcrypt.hashSync("secret", 4)}"`);
const options = parseOptions(parse(completed) as OptionsInput);

test("the pod that restores has the same access to the volume as the service", async () => {
  const { metadata, spec } = parse(await read("restore.yaml")) as { metadata: { name: string }; spec: typeof pod };
  const [restore] = spec.containers;
  expect(spec.securityContext).toEqual(pod.securityContext);
  expect(restore?.securityContext).toEqual(container.securityContext);
  const [image] = kustomization.images;
  expect(restore).toMatchObject({
    image: `${image?.newName}:${image?.newTag}`,
    volumeMounts: [container.volumeMounts[0]],
  });
  expect(spec.volumes).toEqual([{ name: "data", persistentVolumeClaim: { claimName: "data-flowgate-0" } }]);
  const guide = await readFile(join(root, "docs/operations.md"), "utf8");
  expect(guide).toContain(`kubectl -n flowgate delete pod ${metadata.name}\n`);
});

test("every file is applied, except for optional ones", async () => {
  const chosen = ["flow-egress.yaml", "flowgate.yaml", "kustomization.yaml", "restore.yaml"];
  expect((await readdir(folder)).toSorted()).toEqual([...kustomization.resources, ...chosen].toSorted());
});

test("all references are valid, and a restricted namespace admits the pod", () => {
  expect(findProblems(manifests, kustomization)).toEqual([]);
});

test.each<[string, (manifests: Manifest[]) => void, string]>([
  ["a selector", (all) => (podOf(all).labels["app.kubernetes.io/name"] = "other"), "which the pod does not have"],
  ["a port", (all) => podOf(all).container.ports.pop(), "leads to the port metrics, which the pod does not have"],
  ["a probe", (all) => (podOf(all).container.livenessProbe.httpGet.port = "web"), "a probe asks the port web"],
  ["a mount", (all) => podOf(all).pod.volumes.pop(), "the volume config is mounted, and missing"],
  [
    "a secret",
    (all) => podOf(all).pod.volumes.push({ name: "x", secret: { secretName: "x" } }),
    "the secret x is missing",
  ],
  ["the account", (all) => (podOf(all).pod.serviceAccountName = "default"), "the service account default is missing"],
  ["the headless service", (all) => all.splice(3, 1), "needs the headless service flowgate-pods"],
  ["a root", (all) => (podOf(all).pod.securityContext["runAsNonRoot"] = false), "runAsNonRoot must be true"],
  [
    "a door",
    (all) => all.forEach(({ spec }) => delete spec?.ingress?.[0]?.from),
    "NetworkPolicy flowgate lets everyone in",
  ],
  [
    "a way to the node's credentials",
    (all) => all.forEach(({ spec }) => delete spec?.egress?.[0]?.to?.[0]?.ipBlock?.except),
    "lets flows reach 169.254.0.0/16",
  ],
])("the check detects %s", async (_name, breakIt, problem) => {
  const broken = await readManifests();
  breakIt(broken);
  expect(findProblems(broken, kustomization).join("\n")).toContain(problem);
});

test("the configuration is valid once the password is a hash", () => {
  const refused = (() => {
    try {
      parseOptions(parse(configuration) as OptionsInput);
    } catch (error) {
      return error;
    }
  })() as OptionsError;
  expect(refused).toBeInstanceOf(OptionsError);
  expect(refused.problems.map(({ path }) => path.join("."))).toEqual(["adminAuth.users.0.password"]);
});

test("the pod's ports, folders and variables match the configuration", () => {
  const ports = Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort]));
  expect(ports).toEqual({ api: options.port, flows: options.runtime.port, metrics: options.metrics.port });
  for (const { name, port, targetPort } of manifests.flatMap(({ kind, spec }) =>
    kind === "Service" ? (spec?.ports ?? []) : [],
  )) {
    expect([name, port]).toEqual([name, ports[targetPort]]);
  }
  const variables = ["FLOWGATE_CONFIG", ...settings.map(({ variable }) => variable)];
  expect(container.env.filter(({ name }) => !variables.includes(name))).toEqual([]);
  const mounts = Object.fromEntries(container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]));
  expect(mounts["data"]).toBe(options.dataDir);
  const config = container.env.find(({ name }) => name === "FLOWGATE_CONFIG")?.value;
  expect(kustomization.secretGenerator[0]?.files.map((file) => `${mounts["config"]}/${file}`)).toEqual([config]);
  expect([options.host, options.runtime.host, options.metrics.host]).toEqual(["0.0.0.0", "0.0.0.0", "0.0.0.0"]);
});

test("the pod has enough time to drain", () => {
  const { drain, runtime } = options;
  expect(drain.delayMs).toBeGreaterThan(0);
  const neededMs = drain.delayMs + drain.graceMs + runtime.nodeCloseTimeoutMs;
  expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(neededMs);
});

test("the port of the API is declared as HTTP/2 without TLS, which supports all of its protocols", () => {
  const service = manifests.find(({ kind, metadata }) => kind === "Service" && metadata.name === "flowgate");
  expect(service?.spec?.ports?.map(({ name, appProtocol }) => [name, appProtocol])).toEqual([
    ["api", "kubernetes.io/h2c"],
    ["flows", "http"],
  ]);
});

test("the image's user, version and data directory match the manifests", async () => {
  const dockerfile = await readFile(join(root, "Dockerfile"), "utf8");
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  const { runAsUser, runAsGroup, fsGroup } = pod.securityContext as Record<string, number>;
  expect(dockerfile).toContain(`\nUSER ${runAsUser}:${runAsGroup}\n`);
  expect(fsGroup).toBe(runAsGroup);
  expect(dockerfile).toContain(`\nVOLUME ${options.dataDir}\n`);
  expect(dockerfile).toContain(`image.version="${version}"`);
  expect(kustomization.images.map(({ newTag }) => newTag)).toEqual([version]);
});

test("a service with this configuration passes the probes, and serves its metrics", async () => {
  await using service = await startService({
    config: completed.replaceAll("0.0.0.0", "127.0.0.1").replace("delayMs: 5000", "delayMs: 0"),
    env: { FLOWGATE_METRICS_PORT: "0" },
  });
  for (const { httpGet } of probesOf(container)) {
    expect(await service.send("GET", httpGet.path)).toMatchObject({ status: 200 });
  }
  const metricsUrl = /Metrics, without authentication: (\S+)/.exec(service.log())?.[1] ?? "";
  expect((await send(metricsUrl, "GET", "/metrics")).status).toBe(200);
});
