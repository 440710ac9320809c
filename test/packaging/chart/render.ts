// Checks the chart with Helm, and renders it for the tests: `npm run chart`, with Helm 3 or 4 on the PATH, for example from
// `go install helm.sh/helm/v4/cmd/helm@v4.3.1`.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { chart, firstLine, renderedPath, type Rendering, renderings } from "./renderings.ts";

function helm(...args: string[]) {
  const { error, ...result } = spawnSync("helm", args, { encoding: "utf8" });
  if (error !== undefined) {
    throw new Error("Helm could not be run: https://helm.sh/docs/intro/install", { cause: error });
  }
  return result;
}

// Helm 3 that was built from source assumes a version of Kubernetes that the chart does not support.
const toFlags = (files: readonly string[] = []): string[] => [
  "--kube-version=1.35.0",
  ...files.flatMap((file) => ["--values", join(chart, file)]),
];

function toArguments({ release, files, set, template }: Rendering): string[] {
  return [
    release,
    chart,
    "--namespace=flowgate",
    ...(template === undefined ? [] : [`--show-only=${template}`]),
    ...toFlags(files),
    ...Object.entries(set).flatMap(([path, value]) => ["--set-json", `${path}=${JSON.stringify(value)}`]),
  ];
}

function run(...args: string[]): string {
  const { status, stdout, stderr } = helm(...args);
  if (status !== 0) {
    throw new Error(`helm ${args[0]} failed:\n${stdout}${stderr}`);
  }
  return stdout;
}

const refused: [Rendering, message: string][] = [
  [{ release: "flowgate", set: {} }, "replace the placeholders in `config`"],
  [{ ...renderings.replicas, set: {} }, "replace the placeholders in `config`"],
  [
    { ...renderings["one-pod"], set: { ...renderings["one-pod"].set, replicas: 3 } },
    "several replicas need `config.store`",
  ],
  [{ ...renderings.options, set: { ...renderings.options.set, existingSecrets: "x" } }, "existingSecrets"],
];
for (const [rendering, message] of refused) {
  const { status, stderr } = helm("template", ...toArguments(rendering));
  if (status === 0 || !stderr.includes(message)) {
    throw new Error(`helm must refuse this with "${message}": ${JSON.stringify(rendering)}\n${stderr}`);
  }
}
for (const { files } of [renderings["one-pod"], renderings.replicas] as Rendering[]) {
  run("lint", "--strict", chart, ...toFlags(files));
}
for (const name of Object.keys(renderings) as (keyof typeof renderings)[]) {
  // Helm 3 and Helm 4 differ in the empty lines between objects.
  const manifests = run("template", ...toArguments(renderings[name])).replaceAll(/\n+(?=---\n|$)/g, "\n");
  writeFileSync(renderedPath(name), `${firstLine()}\n${manifests}`);
}
