/** The parts of Kubernetes objects that refer to each other; all others are `unknown`. */
export type Manifest = {
  kind: string;
  metadata: { name: string; labels?: Labels };
  spec?: {
    replicas?: number;
    selector?: Labels | { matchLabels: Labels };
    clusterIP?: string;
    ports?: { name: string; port: number; targetPort: string; appProtocol?: string }[];
    serviceName?: string;
    template?: { metadata: { labels: Labels; annotations?: Labels }; spec: Pod };
    volumeClaimTemplates?: { metadata: { name: string } }[];
    podSelector?: { matchLabels: Labels };
    policyTypes?: string[];
    ingress?: { from?: Peer[]; ports?: { port: string | number }[] }[];
    egress?: { to?: Peer[]; ports?: { port: string | number }[] }[];
    maxUnavailable?: number;
  };
  data?: Readonly<Record<string, string>>;
};

type Peer = { ipBlock?: { cidr: string; except?: string[] }; namespaceSelector?: Selector; podSelector?: Selector };

type Selector = { matchLabels?: Labels };

type Labels = Record<string, string>;

type Pod = {
  serviceAccountName: string;
  automountServiceAccountToken: boolean;
  terminationGracePeriodSeconds: number;
  securityContext: Record<string, unknown>;
  topologySpreadConstraints?: { topologyKey: string; labelSelector: Selector }[];
  containers: Container[];
  volumes: { name: string; secret?: { secretName: string } }[];
};

type Container = {
  image: string;
  securityContext: Record<string, unknown>;
  env: { name: string; value: string }[];
  ports: { name: string; containerPort: number }[];
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
  volumeMounts: { name: string; mountPath: string }[];
};

export type Probe = { httpGet: { path: string; port: string; scheme?: string } };

/** The names of what the manifests refer to, and do not contain. */
export type Given = { readonly secrets: readonly string[]; readonly images: readonly string[] };

/** The only pod of the manifests. */
export function podOf(manifests: readonly Manifest[]): {
  labels: Labels;
  annotations: Labels | undefined;
  pod: Pod;
  container: Container;
} {
  const template = manifests.find(({ kind }) => kind === "StatefulSet")?.spec?.template;
  const container = template?.spec.containers[0];
  if (template === undefined || container === undefined) {
    throw new Error("there is no StatefulSet with a container");
  }
  const { labels, annotations } = template.metadata;
  return { labels, annotations, pod: template.spec, container };
}

export function probesOf({ startupProbe, livenessProbe, readinessProbe }: Container): Probe[] {
  return [startupProbe, livenessProbe, readinessProbe];
}

/** Finds references to missing objects, and violations of the `restricted` profile. */
export function findProblems(manifests: readonly Manifest[], { secrets, images }: Given): string[] {
  const { labels, pod, container } = podOf(manifests);
  const problems: string[] = [];
  const expect = (holds: boolean, problem: string): void => {
    if (!holds) {
      problems.push(problem);
    }
  };
  const portNames = container.ports.map(({ name }) => name);

  for (const { kind, metadata, spec = {} } of manifests) {
    const name = `${kind} ${metadata.name}`;
    const selector = spec.podSelector ?? spec.selector;
    const wanted = selector === undefined ? {} : "matchLabels" in selector ? selector.matchLabels : selector;
    for (const [key, value] of Object.entries(wanted as Labels)) {
      expect(labels[key] === value, `${name} selects ${key}: ${value}, which the pod does not have`);
    }
    if (kind === "Service") {
      for (const { targetPort } of spec.ports ?? []) {
        expect(portNames.includes(targetPort), `${name} leads to the port ${targetPort}, which the pod does not have`);
      }
    }
    for (const { port } of (spec.ingress ?? []).flatMap(({ ports = [] }) => ports)) {
      expect(portNames.includes(String(port)), `${name} opens the port ${port}, which the pod does not have`);
    }
    for (const { from } of spec.ingress ?? []) {
      expect(!isOpen(from), `${name} lets everyone in`);
    }
    for (const { cidr, except = [] } of (spec.egress ?? []).flatMap(({ to }) => to ?? [{}]).flatMap(ipBlocks)) {
      const metadataService = cidr.includes(":") ? "fc00::/7" : "169.254.0.0/16";
      expect(except.includes(metadataService), `${name} lets flows reach ${metadataService}`);
    }
    for (const { to } of spec.egress ?? []) {
      expect(!isOpen(to), `${name} lets flows reach everything`);
    }
    if (kind === "StatefulSet") {
      const headless = manifests.some(
        (one) => one.metadata.name === spec.serviceName && one.spec?.clusterIP === "None",
      );
      expect(headless, `${name} needs the headless service ${spec.serviceName}, which is missing`);
    }
  }

  for (const { topologyKey, labelSelector } of pod.topologySpreadConstraints ?? []) {
    for (const [key, value] of Object.entries(labelSelector.matchLabels ?? {})) {
      expect(labels[key] === value, `spreading by ${topologyKey} counts ${key}: ${value}, which the pod does not have`);
    }
  }

  const claims = manifests.flatMap(({ spec }) => spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name);
  const volumes = [...claims, ...pod.volumes.map(({ name }) => name)];
  for (const { name } of container.volumeMounts) {
    expect(volumes.includes(name), `the volume ${name} is mounted, and missing`);
  }
  for (const { secret } of pod.volumes) {
    expect(secret === undefined || secrets.includes(secret.secretName), `the secret ${secret?.secretName} is missing`);
  }
  for (const { httpGet } of probesOf(container)) {
    expect(portNames.includes(httpGet.port), `a probe asks the port ${httpGet.port}, which the pod does not have`);
  }
  const accounts = manifests.filter(({ kind }) => kind === "ServiceAccount").map(({ metadata }) => metadata.name);
  expect(accounts.includes(pod.serviceAccountName), `the service account ${pod.serviceAccountName} is missing`);
  expect(images.includes(container.image), `the image ${container.image} is not given its place`);

  const context = { ...pod.securityContext, ...container.securityContext };
  const restricted = {
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  };
  for (const [key, value] of Object.entries(restricted)) {
    expect(JSON.stringify(context[key]) === JSON.stringify(value), `${key} must be ${JSON.stringify(value)}`);
  }
  expect(!pod.automountServiceAccountToken, "flows could use the service account's token");
  return problems;
}

function ipBlocks({ ipBlock }: Peer) {
  return ipBlock === undefined ? [] : [ipBlock];
}

/** Whether peers are not limited: there are none, or one is selected by no label at all. */
function isOpen(peers: readonly Peer[] = []): boolean {
  const isLimited = ({ ipBlock, namespaceSelector, podSelector }: Peer): boolean =>
    ipBlock !== undefined || Object.keys({ ...namespaceSelector?.matchLabels, ...podSelector?.matchLabels }).length > 0;
  return peers.length === 0 || !peers.every(isLimited);
}
