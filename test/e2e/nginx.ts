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

export const nginx = "/usr/sbin/nginx";

export async function openNginx(options: ProxyOptions): Promise<Proxy> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-nginx-"));
  const deployed = await readDeployed("nginx/flowgate.conf");
  const path = (name: string): string => join(directory, name);
  await Promise.all([
    writeFile(path("tls.crt"), proxyCertificate.cert),
    writeFile(path("tls.key"), proxyCertificate.key),
    writeFile(path("ca.crt"), authority.cert),
    writeFile(path("workloads.crt"), workloads.cert),
    writeFile(path("nginx.conf"), around(directory)),
  ]);
  return startProxy({
    name: "nginx",
    plainPorts: 2,
    async prepare(ports) {
      await writeFile(path("flowgate.conf"), configure(deployed, directory, ports, options));
      return [nginx, "-e", "stderr", "-c", path("nginx.conf")];
    },
    dispose: () => rm(directory, { recursive: true }),
  });
}

/** Replaces the system's nginx.conf: one process, in the foreground, that writes only to its folder. */
function around(directory: string): string {
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
    daemon off;
    master_process off;
    pid ${directory}/nginx.pid;
    error_log stderr;
    worker_rlimit_nofile 8192;
    events { worker_connections 4096; }
    http {
      access_log off;
      ${folders.map((name) => `${name}_temp_path ${directory}/${name};`).join("\n")}
      include ${directory}/flowgate.conf;
    }`;
}

function configure(deployed: string, directory: string, ports: Ports, options: ProxyOptions): string {
  const [first, second] = options.upstreams;
  const config = replace(deployed, [
    ["listen 443 ", `listen 127.0.0.1:${ports.tls} `],
    ["127.0.0.1:8000", `127.0.0.1:${ports.http}`],
    ["127.0.0.1:8001", `127.0.0.1:${ports.h2c}`],
    ["127.0.0.1:8080", `127.0.0.1:${first}`],
    ["/etc/nginx/flowgate/", `${directory}/`],
    ...(second === undefined ? [] : ([["#server 127.0.0.1:8081", `server 127.0.0.1:${second}`]] as const)),
    ...(options.upstreamTls === true ? overTls : []),
    ...(options.clientCertificates === true ? askingClients : []),
  ]);
  return options.edit?.(config) ?? config;
}

const overTls = [
  ["proxy_pass http:", "proxy_pass https:"],
  ["grpc_pass grpc:", "grpc_pass grpcs:"],
  ["#proxy_ssl_", "proxy_ssl_"],
  ["#grpc_ssl_", "grpc_ssl_"],
] as const;

const askingClients = [
  ["#ssl_client_certificate", "ssl_client_certificate"],
  ["#ssl_verify_client", "ssl_verify_client"],
] as const;
