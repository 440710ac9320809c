import * as z from "zod";
import { parseSubnet } from "../server/pipeline/client.ts";
import { builtInRoles } from "../auth/permissions.ts";
import { adminAuth, identity } from "./access.ts";
import { cors, tls } from "./connections.ts";
import { defaultDataDir } from "./data-dir.ts";
import { limits } from "./limits.ts";
import { permissionsWith, roles } from "./permissions.ts";
import { modules } from "./modules.ts";
import { nodeRed } from "./node-red.ts";
import { runtime } from "./runtime.ts";
import { metrics, tracing } from "./telemetry.ts";
import { webhooks } from "./webhooks.ts";
import { flag, listOf, milliseconds, oneOf, port, text, wholeNumber, wholeNumberOrOff } from "./values.ts";

const history = z
  .strictObject({
    maxRevisions: wholeNumber(2, 10_000_000)
      .default(10_000)
      .describe(
        "Number of revisions to keep. Older ones are removed unless they are pinned. Also the maximum number of pinned ones.",
      ),
    maxAgeDays: wholeNumber(1, 36_500)
      .optional()
      .describe(
        "How long revisions are kept. The active one, its parent and pinned ones are kept longer. Absent: no limit.",
      ),
  })
  .prefault({});

const approvals = z
  .strictObject({
    required: z
      .union([z.literal("all"), z.array(text).readonly()], "must be all, or a list of labels and ids of tabs")
      .default([])
      .describe(
        "Tabs that are changed only by proposals that another user approves: a list of labels or ids, with which subflows and nodes outside of tabs need approval too, or `all`.",
      ),
    expiryDays: wholeNumber(1, 365)
      .default(7)
      .describe("How long a proposal can be approved, in days, unless another deployment replaces its base before."),
    maxOpen: wholeNumber(1, 10_000)
      .default(100)
      .describe("Maximum number of open proposals. A further one is rejected with 429."),
    maxOpenPerUser: wholeNumber(1, 10_000).default(20).describe("The same for the proposals of one user."),
  })
  .prefault({});

const permissions = permissionsWith(builtInRoles);

/** All options with defaults and descriptions, one by one. */
export const keys = z.strictObject({
  host: text
    .default("localhost")
    .describe(
      "Address to listen on. `localhost` is 127.0.0.1 and, if the machine has it, ::1, both with the same port. An address other than loopback requires `adminAuth`, `identity` or `allowUnauthenticated`.",
    ),
  port: port
    .default(8080)
    .describe("Port of the administration API, for REST, Connect, gRPC and gRPC-Web. 0 selects a free port."),
  socket: z
    .union([text, z.literal(false)], "must be a path, or false")
    .optional()
    .describe(
      "Path of a Unix socket that serves the same API without TLS, with limits of its own, to processes of this user. false: none. Absent: `flowgate.sock` in `dataDir`.",
    ),
  dataDir: text
    .default(defaultDataDir)
    .describe("Directory of the store, the credential key and the runtime's files. Created if it does not exist."),
  store: text
    .regex(/^[a-z]+:./, "must be a URL such as sqlite:/var/lib/flowgate/flowgate.db")
    .optional()
    .describe(
      "URL of the store, which holds revisions, credentials and tokens: `sqlite:` followed by the path of a file, or `postgres://user:password@host:5432/database`, which several replicas can share. Absent: `flowgate.db` in `dataDir`.",
    ),
  roles,
  adminAuth: adminAuth(permissions)
    .optional()
    .describe(
      "Users and their permissions. Absent, and without `identity`: every client that reaches the port may call every operation.",
    ),
  approvals,
  tls: tls
    .optional()
    .describe("Serves `port` over TLS only. Changed certificate files are loaded without a restart. Absent: no TLS."),
  trustedProxies: listOf(
    z
      .string("must be an address or a subnet")
      .refine(
        (subnet) => parseSubnet(subnet) !== undefined,
        "must be an address such as 10.0.0.1 or a subnet such as 10.0.0.0/8, but not all addresses",
      ),
    "addresses and subnets",
  )
    .default([])
    .describe(
      "Addresses or subnets of the proxies whose `X-Forwarded-*` headers are used. From other peers these headers are ignored.",
    ),
  identity: identity(permissions)
    .optional()
    .describe(
      "Permissions of workloads that are identified by a SPIFFE ID and need no token. Absent: SPIFFE IDs are ignored.",
    ),
  allowUnauthenticated: flag
    .default(false)
    .describe(
      'Permits configurations in which unauthenticated clients have full access: without `adminAuth` and `identity`, a `host` other than loopback or `"*"` in `cors.origins`.',
    ),
  hosts: listOf(
    text.regex(
      /^[a-z\d_-]+(?:\.[a-z\d_-]+)*$/i,
      "must be a host name such as flows.example, without scheme, port and path",
    ),
    "names",
  )
    .default([])
    .describe(
      "Host names of the service, in addition to `host`, `localhost` and IP addresses. Without `tls`, a request that needs no token is rejected with 421 if it names another host.",
    ),
  cors: cors.optional().describe("Web pages of other origins that may call the service. Absent: none."),
  console: flag
    .optional()
    .describe(
      "Serves the web console at `/console`, to which `/` redirects then. Its files need no authentication, its calls do. Absent: as `docs`.",
    ),
  credentialSecret: text
    .optional()
    .describe(
      "Secret that the credentials of flows are encrypted with, at rest and in the encrypted (`$`) form of a deployment. Absent: a key is generated in `dataDir`, and the encrypted form is rejected. A changed one takes effect without a restart, with `flowgate credentials rotate`.",
    ),
  previousCredentialSecrets: listOf(text, "secrets")
    .default([])
    .describe(
      "Former values of `credentialSecret`. Values encrypted with them can be read until `flowgate credentials rotate` has encrypted them with `credentialSecret`; the encrypted (`$`) form of a deployment is accepted with them too.",
    ),
  docs: flag
    .default(true)
    .describe(
      "Serves a description of the API at `/openapi.json` and `/docs`, without authentication. Without the console, `/` redirects to `/docs`.",
    ),
  reflection: oneOf(["off", "authenticated", "open"])
    .optional()
    .describe(
      "Access to gRPC server reflection: `off`, `authenticated` or `open`. Absent: `open` without `adminAuth` and `identity`, otherwise `authenticated`.",
    ),
  metrics: metrics.prefault({}),
  tracing: tracing.optional().describe("Exports OpenTelemetry traces of calls. Absent: no export."),
  history,
  runtime: runtime.prefault({}),
  modules,
  nodeRed,
  limits,
  live: z
    .strictObject({
      address: z
        .string("must be a URL")
        .refine(
          isBaseUrl,
          "must be an http or https URL such as http://10.0.0.5:8080, without a path, user and password",
        )
        .optional()
        .describe(
          "URL at which the other replicas reach this one for its events. A name in it must also be one of `hosts`. Absent: from `host` and `port`; with a `host` such as 0.0.0.0, the first address of the machine that is not loopback.",
        ),
      journal: z
        .strictObject({
          size: wholeNumberOrOff(1_048_576)
            .default(64)
            .describe(
              "Size of the journal of events in MiB, about. The oldest are removed. 0 or false: nothing is recorded.",
            ),
          age: wholeNumberOrOff(36_500)
            .default(7)
            .describe("How long the journal keeps events, in days. 0 or false: nothing is recorded."),
        })
        .prefault({}),
    })
    .prefault({}),
  webhooks,
  audit: z
    .strictObject({
      retentionDays: wholeNumber(0, 36_500)
        .default(400)
        .describe(
          "How long entries of the audit log are kept. The default covers a year and the time to review it. 0 keeps all entries.",
        ),
    })
    .prefault({}),
  drain: z
    .strictObject({
      delayMs: wholeNumber(0, 86_400_000)
        .default(0)
        .describe(
          "How long calls are still accepted after SIGTERM, while health checks report not ready. Set it to the time that load balancers need to notice; for example 5000 in Kubernetes.",
        ),
      graceMs: milliseconds
        .default(10_000)
        .describe("How long, after that, calls in flight and the flows may take to end before they are aborted."),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: oneOf(["trace", "debug", "info", "warn", "error", "fatal", "silent"])
        .default("info")
        .describe("Minimum severity of the messages that are logged."),
    })
    .prefault({}),
});

function isBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.href === `${url.origin}/`;
}
