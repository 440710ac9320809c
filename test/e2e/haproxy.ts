import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Ports,
  type Proxy,
  type ProxyOptions,
  authority,
  proxyCertificate,
  readDeployed,
  replace,
  startProxy,
  workloads,
} from "./proxy.ts";

export const haproxy = "/usr/sbin/haproxy";

export async function openHaproxy(options: ProxyOptions): Promise<Proxy> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-haproxy-"));
  const deployed = await readDeployed("haproxy/flowgate.cfg");
  const path = (name: string): string => join(directory, name);
  await Promise.all([
    writeFile(path("flowgate.pem"), proxyCertificate.cert + proxyCertificate.key),
    writeFile(path("ca.crt"), authority.cert),
    writeFile(path("workloads.crt"), workloads.cert),
  ]);
  return startProxy({
    name: "HAProxy",
    plainPorts: 1,
    async prepare(ports) {
      await writeFile(path("flowgate.cfg"), configure(deployed, directory, ports, options));
      // Run in the foreground.
      return [haproxy, "-db", "-f", path("flowgate.cfg")];
    },
    dispose: () => rm(directory, { recursive: true }),
  });
}

function configure(deployed: string, directory: string, ports: Ports, options: ProxyOptions): string {
  const [first, second] = options.upstreams;
  const config = replace(deployed, [
    ...(options.clientCertificates === true ? askingClients : []),
    ...(options.upstreamTls === true ? overTls : []),
    ...(second === undefined ? [] : ([["#server b 127.0.0.1:8081", `server b 127.0.0.1:${second}`]] as const)),
    ["bind :443 ", `bind 127.0.0.1:${ports.tls} `],
    ["127.0.0.1:8000", `127.0.0.1:${ports.http}`],
    ["127.0.0.1:8080", `127.0.0.1:${first}`],
    ["/etc/haproxy/", `${directory}/`],
  ]);
  return options.edit?.(config) ?? config;
}

/** Replaces one line with another. */
const overTls = [
  ["#default-server ", "default-server "],
  ["server a 127.0.0.1:8080 proto h2", ""],
  ["#server a ", "server a "],
] as const;

const askingClients = [
  ["\n    bind :443 ", "\n    #"],
  ["#bind :443 ", "bind :443 "],
] as const;
