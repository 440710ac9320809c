import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { type OptionsInput, parseOptions } from "../../src/options/parse.ts";
import { chart, completed, firstLine, renderedPath, renderings } from "./chart/renderings.ts";
import { type Manifest, findProblems, podOf } from "./kubernetes-check.ts";
import { folders, readDocuments, readKustomization, readManifests } from "./kustomize.ts";
import { root } from "./stage.ts";

// Helm is not required here: `npm run chart` renders the chart into these files.
const [onePod, replicas, options, files] = await Promise.all([
  readDocuments(renderedPath("one-pod")),
  readDocuments(renderedPath("replicas")),
  readDocuments(renderedPath("options")),
  readDocuments(renderedPath("files")),
]);

const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };

const forms = [
  { form: "one pod", rendered: onePod, folder: folders.one },
  { form: "replicas", rendered: replicas, folder: folders.replicas },
];

test("the renderings are those of this chart; if not, `npm run chart` writes new ones", async () => {
  for (const name of Object.keys(renderings) as (keyof typeof renderings)[]) {
    expect((await readFile(renderedPath(name), "utf8")).split("\n", 1)).toEqual([firstLine()]);
  }
});

test.each(forms)("the chart has the same objects as the manifests, with $form", async ({ rendered, folder }) => {
  const { images } = await readKustomization(folders.one);
  const [image] = images ?? [];
  const expected = (await readManifests(folder)).filter(({ kind }) => kind !== "Namespace");
  podOf(expected).container.image = `${image?.newName}:${image?.newTag}`;
  expect(comparable(rendered.filter(({ kind }) => kind !== "Secret"))).toEqual(comparable(expected));
});

test.each(forms)("the chart has the same configuration as the manifests, with $form", async ({ rendered, folder }) => {
  const expected = parse(await readFile(join(folder, "flowgate.yaml"), "utf8")) as OptionsInput;
  const { "config.adminAuth.users": users, "config.store": store, "config.credentialSecret": secret } = completed;
  const configuration = parse(fileOf(rendered, "flowgate.yaml")) as OptionsInput;
  expect(configuration).toEqual({
    ...expected,
    adminAuth: { users },
    ...("store" in expected && { store, credentialSecret: secret }),
  });
  expect(() => parseOptions(configuration)).not.toThrow();
});

test.each([...forms, { form: "all options", rendered: options }])(
  "all references in the chart are valid, with $form",
  ({ rendered }) => {
    const secrets = rendered.flatMap(({ kind, metadata }) => (kind === "Secret" ? [metadata.name] : []));
    const images = [version, renderings.options.set["image.tag"]].map((tag) => `registry.example/flowgate:${tag}`);
    expect(findProblems(rendered, { secrets: [...secrets, "own-config"], images })).toEqual([]);
  },
);

test("all objects have the labels that Kubernetes recommends", () => {
  for (const { metadata } of [...onePod, ...replicas]) {
    expect(metadata.labels).toEqual({
      "app.kubernetes.io/name": "flowgate",
      "app.kubernetes.io/instance": "flowgate",
      "app.kubernetes.io/version": version,
      "app.kubernetes.io/managed-by": "Helm",
      "helm.sh/chart": `flowgate-${version}`,
    });
  }
});

test("the version of the chart and of its image is the package's", async () => {
  expect(parse(await readFile(join(chart, "Chart.yaml"), "utf8"))).toMatchObject({ version, appVersion: version });
});

test("a change of the configuration restarts the pods", () => {
  const checksums = [onePod, replicas].map((rendered) => podOf(rendered).annotations?.["checksum/config"]);
  expect(checksums[0]).toMatch(/^[\da-f]{64}$/);
  expect(checksums[0]).not.toBe(checksums[1]);
});

test("other releases have other names and selectors", () => {
  const names = options.map(({ metadata }) => metadata.name);
  expect(names.filter((name) => !/^gateway-flowgate(-\w+)*$/.test(name))).toEqual([]);
  expect(podOf(options).labels).toMatchObject({ "app.kubernetes.io/instance": "gateway" });
});

test("a Secret of the user replaces the chart's", () => {
  expect(options.map(({ kind }) => kind)).not.toContain("Secret");
  expect(podOf(options).pod.volumes).toMatchObject([{ name: "config", secret: { secretName: "own-config" } }]);
});

test("an empty list of peers permits nobody, except replicas", () => {
  const rules = options.flatMap(({ spec }) => spec?.ingress ?? []);
  expect(rules.flatMap(({ ports = [] }) => ports.map(({ port }) => port))).toEqual(["flows", "metrics", "api"]);
  const labels = { "app.kubernetes.io/name": "flowgate", "app.kubernetes.io/instance": "gateway" };
  expect(rules.at(-1)?.from).toEqual([{ podSelector: { matchLabels: labels } }]);
});

test("flows may reach the same networks as with the manifests", async () => {
  const [manifest] = await readDocuments(join(folders.one, "flow-egress.yaml"));
  expect(options.find(({ metadata }) => metadata.name.endsWith("flow-egress"))?.spec?.egress).toEqual(
    manifest?.spec?.egress,
  );
  expect(onePod.map(({ metadata }) => metadata.name)).not.toContain("flowgate-flow-egress");
});

test("with TLS, probes and gateways use it", () => {
  const { startupProbe, livenessProbe, readinessProbe } = podOf(options).container;
  expect([startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.scheme)).toEqual(
    Array(3).fill("HTTPS"),
  );
  const ports = options.flatMap(({ kind, spec }) => (kind === "Service" ? (spec?.ports ?? []) : []));
  expect(ports.map(({ appProtocol }) => appProtocol)).toEqual(["https", "http", "http"]);
});

test("the pod has what the other values add", () => {
  const { pod, container, annotations } = podOf(options);
  expect(pod).toMatchObject({
    imagePullSecrets: [{ name: "registry" }],
    nodeSelector: { "kubernetes.io/arch": "amd64" },
    tolerations: [{ key: "dedicated", operator: "Exists" }],
  });
  expect(container.env).toContainEqual(renderings.options.set.env[0]);
  expect(annotations).toMatchObject({ "prometheus.io/scrape": "true" });
  expect(options.flatMap(({ spec }) => spec?.volumeClaimTemplates ?? [])).toMatchObject([
    { spec: { storageClassName: "fast" } },
  ]);
});

test("the Secret contains further files, and large numbers as they are", () => {
  expect(fileOf(files, "db-ca.pem")).toBe("a CA\n");
  expect(parse(fileOf(files, "flowgate.yaml"))).toMatchObject({ limits: { bodyBytes: 52_428_800 } });
});

function fileOf(rendered: readonly Manifest[], name: string): string {
  const content = rendered.find(({ kind }) => kind === "Secret")?.data?.[name] ?? "";
  return Buffer.from(content, "base64").toString();
}

/** Objects by their names, without what only charts add: the labels of Helm, names in selectors of the release, and defaults. */
function comparable(manifests: readonly Manifest[]): Record<string, unknown> {
  const only = new Set([
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
    "checksum/config",
  ]);
  const defaults: Record<string, unknown> = { scheme: "HTTP", imagePullPolicy: "IfNotPresent" };
  return Object.fromEntries(
    manifests.map(({ metadata, ...manifest }) => [
      `${manifest.kind} ${metadata.name}`,
      JSON.parse(
        JSON.stringify(manifest, (key, value: unknown) =>
          only.has(key) || defaults[key] === value || (key === "annotations" && isEmpty(value, only))
            ? undefined
            : value,
        ),
      ),
    ]),
  );
}

function isEmpty(value: unknown, without: ReadonlySet<string>): boolean {
  return Object.keys(value as object).every((key) => without.has(key));
}
