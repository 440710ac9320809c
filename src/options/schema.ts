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

/** Every option with its default and meaning. docs/configuration.md shows the same, and a test compares them. */
export const optionsSchema = z
  .strictObject({
    host: text.default("127.0.0.1").describe("The address to listen on. Others than loopback ask for `adminAuth`."),
    port: port
      .default(8080)
      .describe("The port of the administration API, for HTTP, Connect, gRPC and gRPC-Web; 0 takes a free one."),
    dataDir: text
      .default(defaultDataDir)
      .describe("Where the store, the key of credentials and the runtime's files are kept; made if it is missing."),
    store: text
      .regex(/^[a-z]+:./, "must be a URL such as sqlite:/var/lib/flowgate/flowgate.db")
      .optional()
      .describe(
        "The URL of the store, where revisions, credentials and tokens are kept: `sqlite:` and the path of a file. Absent: `flowgate.db` in `dataDir`.",
      ),
    adminAuth: adminAuth
      .optional()
      .describe("Who may use the API. Absent: everyone who reaches the port may do everything."),
    tls: tls
      .optional()
      .describe(
        "Serves everything on `port` over TLS. Changed files are taken without a restart. Absent: without TLS.",
      ),
    trustedProxies: z
      .array(
        z
          .string("must be an address or a subnet")
          .refine(
            (subnet) => parseSubnet(subnet) !== undefined,
            "must be an address such as 10.0.0.1 or a subnet such as 10.0.0.0/8, and not everyone",
          ),
        "must be a list of addresses and subnets",
      )
      .readonly()
      .default([])
      .describe(
        "The proxies, by address or subnet, whose X-Forwarded-For tells the client's address and X-Forwarded-Proto the scheme. From all others such headers count for nothing.",
      ),
    identity: identity
      .optional()
      .describe("What workloads with a SPIFFE ID may do without a token. Absent: they are not told apart."),
    allowUnauthenticated: flag.default(false).describe("Lets `host` be other than loopback without `adminAuth`."),
    hosts: z
      .array(
        text.regex(
          /^[a-z\d_-]+(?:\.[a-z\d_-]+)*$/i,
          "must be a name such as flows.example, without scheme, port and path",
        ),
        "must be a list of names",
      )
      .readonly()
      .default([])
      .describe(
        "The names by which clients call the service, besides `host`, `localhost` and addresses. Where a request needs no token and `tls` is absent, one to any other name is answered 421.",
      ),
    cors: cors.optional().describe("Which web pages of other origins may use the service. Absent: none."),
    credentialSecret: text
      .optional()
      .describe(
        "What the credentials of flows are encrypted with, at rest and in a deployment's encrypted (`$`) form. Absent: a key is made and kept in the data directory, and the encrypted form is refused.",
      ),
    docs: flag
      .default(true)
      .describe(
        "Whether the API is described at `/openapi.json` and `/docs`, to which `/` redirects; both need no token and show no secret.",
      ),
    reflection: z
      .enum(["off", "authenticated", "open"], "must be one of: off, authenticated, open")
      .optional()
      .describe(
        "Who may ask for the RPC services by gRPC server reflection: no one, whoever is authenticated, or everyone. Absent: `open` without `adminAuth` and `identity`, `authenticated` with either.",
      ),
    metrics: metrics.prefault({}),
    tracing: tracing
      .optional()
      .describe("Records each call, its commit and its start in the runtime as an OpenTelemetry trace. Absent: no."),
    runtime: runtime.prefault({}),
    limits,
    drain: z
      .strictObject({
        delayMs: wholeNumber(0, 86_400_000)
          .default(0)
          .describe(
            "How long, after SIGTERM, calls are taken as before while health says that the service leaves. As long as load balancers take to notice; 5000, say, in Kubernetes.",
          ),
        graceMs: milliseconds
          .default(10_000)
          .describe("How long, after that, calls in flight may take, and the flows to stop, before they are cut off."),
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
          .describe("What is logged: this level and graver ones."),
      })
      .prefault({}),
  })
  .superRefine(({ host, port, runtime, adminAuth, allowUnauthenticated, identity, reflection }, context) => {
    if (port !== 0 && port === runtime.port && overlap(host, runtime.host)) {
      context.addIssue({
        code: "custom",
        path: ["runtime", "port"],
        message: "must be another than port, which the API takes",
      });
    }
    if (reflection === "authenticated" && adminAuth === undefined && identity === undefined) {
      context.addIssue({
        code: "custom",
        path: ["reflection"],
        message:
          "can't be authenticated, since neither adminAuth nor identity is set: set one of them, or say off or open",
      });
    }
    if (adminAuth === undefined && identity === undefined && !allowUnauthenticated && !isLoopback(host)) {
      context.addIssue({
        code: "custom",
        path: ["host"],
        message:
          "would let everyone on the network in, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true",
      });
    }
  })
  .superRefine(({ host, port, runtime, metrics }, context) => {
    const taken = [
      { host, port },
      { host: runtime.host, port: runtime.port },
    ];
    if (metrics.port !== 0 && taken.some((one) => one.port === metrics.port && overlap(one.host, metrics.host))) {
      context.addIssue({
        code: "custom",
        path: ["metrics", "port"],
        message: "must be another than port and runtime.port; without it, the metrics are on port",
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
          'would let every page on the web do everything with "*", since adminAuth is not set: name the origins, set adminAuth, or set allowUnauthenticated: true',
      });
    }
  });

/** Whether no two can listen on one port of these. */
function overlap(one: string, other: string): boolean {
  const covers = (host: string, other: string): boolean =>
    host === other || host === "::" || (host === "0.0.0.0" && isIP(other) !== 6);
  return covers(one, other) || covers(other, one);
}
