import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../stage.ts";

export const chart = join(root, "deploy/helm/flowgate");

export type Rendering = {
  readonly release: string;
  /** Files with values, in the folder of the chart. */
  readonly files?: readonly string[];
  /** Values by their paths. */
  readonly set: Readonly<Record<string, unknown>>;
  /** The only template to render. Defaults to all. */
  readonly template?: string;
};

const users = [
  { username: "admin", password: "$2b$10$abcdefghijklmnopqrstuuJ5ZcKXk0J4o0l3v0cX0b7cQ1V4kZ5mW", permissions: "*" },
];

/** What replaces the placeholders of `config`, by their paths. */
export const completed = {
  "config.adminAuth.users": users,
  "config.store": "postgres://db.example/flowgate",
  "config.credentialSecret": "secret",
};

/** The values with which the chart is rendered into `rendered/<name>.yaml`. */
export const renderings = {
  "one-pod": { release: "flowgate", set: { "config.adminAuth.users": users } },
  replicas: { release: "flowgate", files: ["values-replicas.yaml"], set: completed },
  // All that the others leave at its default.
  options: {
    release: "gateway",
    files: ["values-replicas.yaml"],
    set: {
      existingSecret: "own-config",
      tls: true,
      "image.tag": "1.2.3",
      imagePullSecrets: [{ name: "registry" }],
      env: [{ name: "PGPASSWORD", valueFrom: { secretKeyRef: { name: "database", key: "password" } } }],
      "storage.className": "fast",
      "networkPolicy.api": [],
      "networkPolicy.internet": true,
      nodeSelector: { "kubernetes.io/arch": "amd64" },
      tolerations: [{ key: "dedicated", operator: "Exists" }],
      podAnnotations: { "prometheus.io/scrape": "true" },
    },
  },
  files: {
    release: "flowgate",
    set: { "config.adminAuth.users": users, "config.limits.bodyBytes": 52_428_800, files: { "db-ca.pem": "a CA\n" } },
    template: "templates/secret.yaml",
  },
} satisfies Record<string, Rendering>;

export function renderedPath(name: keyof typeof renderings): string {
  return join(import.meta.dirname, "rendered", `${name}.yaml`);
}

/** The first line of a rendering. Identifies the chart and the values, so that renderings of an earlier version are noticed. */
export function firstLine(): string {
  const hash = createHash("sha256").update(JSON.stringify(renderings));
  const files = readdirSync(chart, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const path of files.map(({ parentPath, name }) => join(parentPath, name)).toSorted()) {
    hash.update(`\0${path.slice(chart.length)}\0`).update(readFileSync(path));
  }
  return `# Written by npm run chart, from ${hash.digest("hex")}`;
}
