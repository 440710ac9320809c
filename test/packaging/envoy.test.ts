import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { root } from "./stage.ts";

// test/e2e/proxies.test.ts runs Envoy. Here, the configuration is checked as text, also without Envoy.
const text = readFileSync(join(root, "deploy/envoy/flowgate.yaml"), "utf8");
/** The configuration changed for a service with `tls`. */
const overTls = text.replaceAll(/^ {6}#(?=\S| {2})/gm, "      ");

type Socket = { address: { socket_address: { port_value: number } } };
type Route = {
  route: {
    cluster: string;
    timeout?: string;
    retry_policy: { retry_on: string; retry_host_predicate?: { name: string }[] };
  };
};
type Secured = { transport_socket?: { typed_config: Record<string, unknown> & { common_tls_context: object } } };
type Manager = {
  use_remote_address?: boolean;
  forward_client_cert_details?: string;
  set_current_client_cert_details?: { uri?: boolean };
  normalize_path?: boolean;
  path_with_escaped_slashes_action?: string;
  stream_idle_timeout?: string;
  http_filters: { name: string }[];
  route_config: { request_headers_to_remove: string[]; virtual_hosts: { domains: string[]; routes: Route[] }[] };
};
type Cluster = Secured & {
  name: string;
  typed_extension_protocol_options: Record<string, { explicit_http_config: Record<string, unknown> }>;
  health_checks?: Record<string, unknown>[];
  load_assignment: { cluster_name: string; endpoints: { lb_endpoints: { endpoint: Socket }[] }[] };
};
type Config = {
  static_resources: {
    listeners: { filter_chains: (Secured & { filters: { typed_config: Manager }[] })[] }[];
    clusters: Cluster[];
  };
};

/** The problems of a configuration. */
function findProblems(yaml: string): string[] {
  const { listeners, clusters } = (parse(yaml) as Config).static_resources;
  const [chain] = listeners[0]?.filter_chains ?? [];
  const manager = chain?.filters[0]?.typed_config;
  const [cluster] = clusters;
  const [host] = manager?.route_config.virtual_hosts ?? [];
  const [route] = host?.routes ?? [];
  if (chain === undefined || manager === undefined || cluster === undefined || route === undefined) {
    return ["a listener, its routes or their cluster are missing"];
  }
  const http = Object.values(cluster.typed_extension_protocol_options)[0]?.explicit_http_config ?? {};
  const names = new Set([route.route.cluster, cluster.name, cluster.load_assignment.cluster_name]);
  const validation = JSON.stringify(cluster.transport_socket?.typed_config ?? "validation_context match_typed");
  const rules: Record<string, boolean> = {
    "gRPC requires HTTP/2 to the service": "http2_protocol_options" in http,
    "health is not checked over gRPC": cluster.health_checks?.some((each) => "grpc_health_check" in each) === true,
    "the client's address is not forwarded": manager.use_remote_address === true,
    "clients could name their own certificate": manager.forward_client_cert_details === "SANITIZE_SET",
    "the URI of a certificate is not forwarded": manager.set_current_client_cert_details?.uri === true,
    "clients could name their own host": manager.route_config.request_headers_to_remove.includes("x-forwarded-host"),
    "paths are changed":
      manager.normalize_path === false && manager.path_with_escaped_slashes_action === "KEEP_UNCHANGED",
    "streams end after 15 s": route.route.timeout === "0s",
    "streams end after 5 minutes": Number.parseInt(manager.stream_idle_timeout ?? "300", 10) >= 3600,
    "calls that may have reached the service are retried": /^(?:(?:connect-failure|refused-stream),?)+$/.test(
      route.route.retry_policy.retry_on,
    ),
    "a call is retried at the instance that refused it":
      route.route.retry_policy.retry_host_predicate?.some(({ name }) => name.endsWith("previous_hosts")) === true,
    "health is not checked before the first call":
      cluster.health_checks?.every((each) => each["no_traffic_interval"] === "1s") === true,
    "require_client_certificate is missing":
      "require_client_certificate" in (chain.transport_socket?.typed_config ?? {}),
    "health checks do not offer HTTP/2": /"alpn_protocols":\["h2"\]|^"validation_context/.test(validation),
    "gRPC-Web is translated": !manager.http_filters.some(({ name }) => name.includes("grpc_web")),
    "HTTP/2 is not offered": JSON.stringify(chain.transport_socket?.typed_config.common_tls_context).includes('"h2"'),
    "a cluster has several names": names.size === 1,
    "the service's certificate is not checked": /validation_context.*match_typed/.test(validation),
  };
  return Object.keys(rules).filter((rule) => rules[rule] === false);
}

test("Envoy's configuration passes the check, with and without tls", () => {
  expect(overTls).not.toBe(text);
  expect(findProblems(text)).toEqual([]);
  expect(findProblems(overTls)).toEqual([]);
});

test.each([
  ["http2_protocol_options", "http_protocol_options", "gRPC requires HTTP/2 to the service"],
  ["grpc_health_check", "tcp_health_check", "health is not checked over gRPC"],
  ["use_remote_address: true", "use_remote_address: false", "the client's address is not forwarded"],
  ["SANITIZE_SET", "ALWAYS_FORWARD_ONLY", "clients could name their own certificate"],
  ["{ uri: true }", "{ subject: true }", "the URI of a certificate is not forwarded"],
  ["[x-forwarded-host]", "[]", "clients could name their own host"],
  ["KEEP_UNCHANGED", "UNESCAPE_AND_FORWARD", "paths are changed"],
  ["timeout: 0s", "timeout: 15s", "streams end after 15 s"],
  ["stream_idle_timeout: 3600s", "stream_idle_timeout: 60s", "streams end after 5 minutes"],
  ["connect-failure,refused-stream", "5xx", "calls that may have reached the service are retried"],
  ["previous_hosts\n", "omit_canary_hosts\n", "a call is retried at the instance that refused it"],
  ["no_traffic_interval: 1s", "no_traffic_interval: 60s", "health is not checked before the first call"],
  ["require_client_certificate: false", "", "require_client_certificate is missing"],
  ["alpn_protocols: [h2]", "alpn_protocols: []", "health checks do not offer HTTP/2"],
  ["envoy.filters.http.router", "envoy.filters.http.grpc_web", "gRPC-Web is translated"],
  ["[h2, http/1.1]", "[http/1.1]", "HTTP/2 is not offered"],
  ["cluster: flowgate", "cluster: other", "a cluster has several names"],
  ["match_typed_subject_alt_names", "match", "the service's certificate is not checked"],
])("the check detects %s changed to %s", (from, to, problem) => {
  expect(overTls).toContain(from);
  expect(findProblems(overTls.replace(from, to))).toContain(problem);
});
