import { isIP } from "node:net";
import * as z from "zod";
import { isLoopback } from "./loopback.ts";
import { parseSubnet } from "../server/trusted-proxies.ts";
import { adminAuth } from "./admin-auth.ts";
import { cors } from "./cors.ts";
import { defaultDataDir } from "./data-dir.ts";
import { checkIdentity, identity, tls } from "./identity.ts";
import { limits } from "./limits.ts";
import { runtime } from "./runtime.ts";
import { metrics, tracing } from "./telemetry.ts";
import { flag, milliseconds, port, text, wholeNumber } from "./values.ts";

/** All options with defaults and descriptions. A test compares them with docs/configuration.md. */
export const optionsSchema = z
  .strictObject({
    host: text
      .default("127.0.0.1")
      .describe("The address to listen on. An address other than loopback requires `adminAuth`."),
    port: port
      .default(8080)
      .describe("The port of the administration API, for HTTP, Connect, gRPC and gRPC-Web; 0 takes a free one."),
    dataDir: text
      .default(defaultDataDir)
      .describe("The directory of the store, the credential key and the runtime's files; created if it is missing."),
    store: text
      .regex(/^[a-z]+:./, "must be a URL such as sqlite:/var/lib/flowgate/flowgate.db")
      .optional()
      .describe(
        "The URL of the store for revisions, credentials and tokens: `sqlite:` and a file path. Absent: `flowgate.db` in `dataDir`.",
      ),
    adminAuth: adminAuth
      .optional()
      .describe("The users of the API. Absent: all clients that can reach the port have all permissions."),
    tls: tls.optional().describe("Serves `port` over TLS. Changed files are loaded without a restart. Absent: no TLS."),
    trustedProxies: z
      .array(
        z
          .string("must be an address or a subnet")
          .refine(
            (subnet) => parseSubnet(subnet) !== undefined,
            "must be an address such as 10.0.0.1 or a subnet such as 10.0.0.0/8, but not all addresses",
          ),
        "must be a list of addresses and subnets",
      )
      .readonly()
      .default([])
      .describe(
        "Addresses or subnets of proxies whose X-Forwarded-For (client address) and X-Forwarded-Proto (scheme) are used. These headers are ignored from all others.",
      ),
    identity: identity
      .optional()
      .describe(
        "The permissions of workloads with a SPIFFE ID, without a token. Absent: workloads are not identified.",
      ),
    allowUnauthenticated: flag.default(false).describe("Allows a `host` other than loopback without `adminAuth`."),
    hosts: z
      .array(
        text.regex(
          /^[a-z\d_-]+(?:\.[a-z\d_-]+)*$/i,
          "must be a host name such as flows.example, without scheme, port and path",
        ),
        "must be a list of names",
      )
      .readonly()
      .default([])
      .describe(
        "Host names of the service, besides `host`, `localhost` and IP addresses. Without `tls`, requests that need no token and have another Host are rejected with 421.",
      ),
    cors: cors.optional().describe("The web pages of other origins that may call the service. Absent: none."),
    credentialSecret: text
      .optional()
      .describe(
        "The secret that encrypts the credentials of flows, at rest and in the encrypted (`$`) form of deployments. Absent: a key is generated and stored in the data directory, and the encrypted form is rejected.",
      ),
    docs: flag
      .default(true)
      .describe(
        "Whether to serve the API description at `/openapi.json` and `/docs` (to which `/` redirects), without a token.",
      ),
    reflection: z
      .enum(["off", "authenticated", "open"], "must be one of: off, authenticated, open")
      .optional()
      .describe(
        "Who may use gRPC server reflection: no client, authenticated clients, or all. Absent: `open` without `adminAuth` and `identity`, otherwise `authenticated`.",
      ),
    metrics: metrics.prefault({}),
    tracing: tracing
      .optional()
      .describe(
        "Exports each call, with its commit and its start in the runtime, as an OpenTelemetry trace. Absent: no export.",
      ),
    runtime: runtime.prefault({}),
    limits,
    drain: z
      .strictObject({
        delayMs: wholeNumber(0, 86_400_000)
          .default(0)
          .describe(
            "How long, after SIGTERM, calls are still accepted while health reports not ready. Should be the time that load balancers take to notice, such as 5000 in Kubernetes.",
          ),
        graceMs: milliseconds
          .default(10_000)
          .describe(
            "How long, after that, to wait for calls in flight and for the flows to stop before they are aborted.",
          ),
      })
      .prefault({}),
    log: z
      .strictObject({
        level: z
          .enum(
            ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
            "must be one of: trace, debug, info, warn, error, fatal, silent",
          )
          .default("info")
          .describe("The minimum level of log lines."),
      })
      .prefault({}),
  })
  .superRefine(({ host, port, runtime, adminAuth, allowUnauthenticated, identity, reflection }, context) => {
    if (port !== 0 && port === runtime.port && overlap(host, runtime.host)) {
      context.addIssue({
        code: "custom",
        path: ["runtime", "port"],
        message: "must be different from port, which the API uses",
      });
    }
    if (reflection === "authenticated" && adminAuth === undefined && identity === undefined) {
      context.addIssue({
        code: "custom",
        path: ["reflection"],
        message:
          "can't be authenticated, since neither adminAuth nor identity is set: set one of them, or use off or open",
      });
    }
    if (adminAuth === undefined && identity === undefined && !allowUnauthenticated && !isLoopback(host)) {
      context.addIssue({
        code: "custom",
        path: ["host"],
        message:
          "would give every client on the network all permissions, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true",
      });
    }
  })
  .superRefine(({ host, port, runtime, metrics }, context) => {
    const used = [
      { host, port },
      { host: runtime.host, port: runtime.port },
    ];
    if (
      metrics.port !== 0 &&
      used.some((address) => address.port === metrics.port && overlap(address.host, metrics.host))
    ) {
      context.addIssue({
        code: "custom",
        path: ["metrics", "port"],
        message: "must be different from port and runtime.port; if absent, the metrics are served on port",
      });
    }
  })
  .superRefine(checkIdentity)
  .superRefine(({ adminAuth, identity, allowUnauthenticated, cors }, context) => {
    if (cors?.origins.includes("*") === true && (adminAuth ?? identity) === undefined && !allowUnauthenticated) {
      context.addIssue({
        code: "custom",
        path: ["cors", "origins"],
        message:
          'would give every web page all permissions with "*", since adminAuth is not set: list the origins, set adminAuth, or set allowUnauthenticated: true',
      });
    }
  });

/** Whether listening on the same port of both addresses conflicts. */
function overlap(first: string, second: string): boolean {
  const covers = (host: string, other: string): boolean =>
    host === other || host === "::" || (host === "0.0.0.0" && isIP(other) !== 6);
  return covers(first, second) || covers(second, first);
}
