import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import bcrypt from "bcryptjs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { settings } from "../../src/cli/option-flags.ts";
import { OptionsError, type OptionsInput, parseOptions } from "../../src/options/parse.ts";
import { send } from "../e2e/rest.ts";
import { startService } from "../e2e/service.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { type Given, type Manifest, findProblems, podOf, probesOf } from "./kubernetes-check.ts";
import { folders, readDocuments, readKustomization, readManifests } from "./kustomize.ts";
import { root } from "./stage.ts";

const read = (name: string) => readFile(join(folders.one, name), "utf8");
const kustomization = await readKustomization(folders.one);
const { secretGenerator, images = [] } = kustomization;
const given: Given = { secrets: secretGenerator.map(({ name }) => name), images: images.map(({ name }) => name) };
const readAll = async () => [
  ...(await readManifests(folders.one)),
  ...(await readDocuments(join(folders.one, "flow-egress.yaml"))),
];
const manifests = await readAll();
const { pod, container } = podOf(manifests);

/** The file after the edits that its comments describe. */
async function complete(folder: string, store = "postgres://db.example/flowgate"): Promise<string> {
  return (await readFile(join(folder, "flowgate.yaml"), "utf8"))
    .replace(/password: REPLACE.*/, `password: "${bcrypt.hashSync("secret", 4)}"`)
    .replace(/store: REPLACE.*/, `store: ${store}`)
    .replace(/credentialSecret:$/m, "credentialSecret: secret");
}

test("the pod that restores has the same access to the volume as the service", async () => {
  const { metadata, spec } = parse(await read("restore.yaml")) as { metadata: { name: string }; spec: typeof pod };
  const [restore] = spec.containers;
  expect(spec.securityContext).toEqual(pod.securityContext);
  expect(restore?.securityContext).toEqual(container.securityContext);
  const [image] = images;
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
  expect((await readdir(folders.one)).toSorted()).toEqual([...kustomization.resources, ...chosen].toSorted());
  const { resources, patches = [] } = await readKustomization(folders.replicas);
  const applied = ["flowgate.yaml", "kustomization.yaml", ...resources, ...patches.map(({ path }) => path)];
  expect(["../kubernetes", ...(await readdir(folders.replicas))].toSorted()).toEqual(applied.toSorted());
});

test("all references are valid, and a restricted namespace admits the pod", async () => {
  expect(findProblems(manifests, given)).toEqual([]);
  expect(findProblems(await readManifests(folders.replicas), given)).toEqual([]);
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
    "peers without labels",
    (all) => all.forEach(({ spec }) => (spec?.ingress ?? []).forEach((rule) => (rule.from = [{ podSelector: {} }]))),
    "NetworkPolicy flowgate lets everyone in",
  ],
  [
    "a way to the node's credentials",
    (all) => all.forEach(({ spec }) => delete spec?.egress?.[0]?.to?.[0]?.ipBlock?.except),
    "lets flows reach 169.254.0.0/16",
  ],
  [
    "spreading",
    (all) =>
      (podOf(all).pod.topologySpreadConstraints = [
        { topologyKey: "zone", labelSelector: { matchLabels: { app: "flowgate" } } },
      ]),
    "spreading by zone counts app: flowgate, which the pod does not have",
  ],
])("the check detects %s", async (_name, breakIt, problem) => {
  const broken = await readAll();
  breakIt(broken);
  expect(findProblems(broken, given).join("\n")).toContain(problem);
});

test.each([
  ["one pod", folders.one, ["adminAuth.users.0.password"]],
  ["replicas", folders.replicas, ["store", "adminAuth.users.0.password", "credentialSecret"]],
])("the configuration of %s is refused until its placeholders are replaced", async (_name, folder, paths) => {
  const text = await readFile(join(folder, "flowgate.yaml"), "utf8");
  const refused = (() => {
    try {
      parseOptions(parse(text) as OptionsInput);
    } catch (error) {
      return error;
    }
  })() as OptionsError;
  expect(refused).toBeInstanceOf(OptionsError);
  expect(refused.problems.map(({ path }) => path.join("."))).toEqual(paths);
});

const forms = [
  { form: "one pod", folder: folders.one },
  { form: "replicas", folder: folders.replicas },
];

test.each(forms)("the ports, folders and variables of $form match the configuration", async ({ folder }) => {
  const options = parseOptions(parse(await complete(folder)) as OptionsInput);
  const all = await readManifests(folder);
  const { ports: containerPorts, env, volumeMounts } = podOf(all).container;
  const ports = Object.fromEntries(containerPorts.map(({ name, containerPort }) => [name, containerPort]));
  expect(ports).toEqual({ api: options.port, flows: options.runtime.port, metrics: options.metrics.port });
  for (const { name, port, targetPort } of all.flatMap(({ kind, spec }) =>
    kind === "Service" ? (spec?.ports ?? []) : [],
  )) {
    expect([name, port]).toEqual([name, ports[targetPort]]);
  }
  const variables = ["FLOWGATE_CONFIG", ...settings.map(({ variable }) => variable)];
  expect(env.filter(({ name }) => !variables.includes(name))).toEqual([]);
  const mounts = Object.fromEntries(volumeMounts.map(({ name, mountPath }) => [name, mountPath]));
  expect(mounts["data"]).toBe(options.dataDir);
  const config = env.find(({ name }) => name === "FLOWGATE_CONFIG")?.value;
  const [generated] = (await readKustomization(folder)).secretGenerator;
  expect(generated?.files.map((file) => `${mounts["config"]}/${file}`)).toEqual([config]);
  expect([options.host, options.runtime.host, options.metrics.host]).toEqual(["0.0.0.0", "0.0.0.0", "0.0.0.0"]);
});

test.each(forms)("the pods of $form have enough time to drain", async ({ folder }) => {
  const { drain, runtime } = parseOptions(parse(await complete(folder)) as OptionsInput);
  const { pod: drained } = podOf(await readManifests(folder));
  expect(drain.delayMs).toBeGreaterThan(0);
  const neededMs = drain.delayMs + drain.graceMs + runtime.nodeCloseTimeoutMs;
  expect(drained.terminationGracePeriodSeconds * 1000).toBeGreaterThan(neededMs);
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
  const dataDir = container.volumeMounts.find(({ name }) => name === "data")?.mountPath;
  expect(dockerfile).toContain(`\nVOLUME ${dataDir}\n`);
  expect(dockerfile).toContain(`image.version="${version}"`);
  expect(images.map(({ newTag }) => newTag)).toEqual([version]);
});

test("several pods share a database, are spread, and at most one of them is evicted", async () => {
  const all = await readManifests(folders.replicas);
  const { store = "" } = parseOptions(parse(await complete(folders.replicas)) as OptionsInput);
  expect(store).toMatch(/^postgres:/);
  const specs = new Map(all.map(({ kind, spec }) => [kind, spec]));
  expect(specs.get("StatefulSet")?.replicas).toBe(3);
  expect(specs.get("PodDisruptionBudget")?.maxUnavailable).toBe(1);
  expect(podOf(all).pod.topologySpreadConstraints?.map(({ topologyKey }) => topologyKey)).toEqual([
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
  ]);
});

test("the replicas' policies permit egress to DNS, to PostgreSQL in labelled namespaces and to the API of replicas only", async () => {
  const rules = (await readManifests(folders.replicas)).flatMap(({ spec }) => spec?.egress ?? []);
  expect(rules.map(({ to, ports = [] }) => [to, ports.map(({ port }) => port)])).toEqual([
    [
      [
        {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
          podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
        },
      ],
      [53, 53],
    ],
    [[{ namespaceSelector: { matchLabels: { "flowgate/database": "allowed" } } }], [5432, 6432]],
    [[{ podSelector: { matchLabels: { "app.kubernetes.io/name": "flowgate" } } }], ["api"]],
  ]);
});

test("services with these configurations pass the probes, and serve their metrics", async () => {
  await using database = await createDatabase();
  for (const [folder, store] of [[folders.one], [folders.replicas, database.url]] as const) {
    const text = await complete(folder, store);
    await using service = await startService({
      config: text.replaceAll("0.0.0.0", "127.0.0.1").replace("delayMs: 5000", "delayMs: 0"),
      env: { FLOWGATE_METRICS_PORT: "0" },
    });
    for (const { httpGet } of probesOf(podOf(await readManifests(folder)).container)) {
      expect(await service.send("GET", httpGet.path)).toMatchObject({ status: 200 });
    }
    const metricsUrl = /Metrics, without authentication: (\S+)/.exec(service.log())?.[1] ?? "";
    expect((await send(metricsUrl, "GET", "/metrics")).status).toBe(200);
  }
});
