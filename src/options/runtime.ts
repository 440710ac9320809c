import * as z from "zod";
import { parseNetworkRule, runtimeDefaults } from "@flowgate/runtime";
import { contextStorage } from "./context-storage.ts";
import { flowHttp } from "./flow-http.ts";
import { globalContext, nodeSettings } from "./node-settings.ts";
import { flag, listOf, milliseconds, oneOf, paths, port, text, wholeNumber } from "./values.ts";

const networkRules = listOf(
  z
    .string("must be an address or a subnet")
    .refine(
      (rule) => parseNetworkRule(rule) !== undefined,
      "must be an address or a subnet, with or without a port, such as 10.0.0.0/8, 192.0.2.1:443, [2001:db8::/32]:443 or *:443; host names are not possible",
    ),
  "addresses and subnets",
);

export const runtime = z.strictObject({
  mode: oneOf(["each", "one", "none"])
    .default("each")
    .describe(
      "Which replicas of a service with a shared store run the flows: `each` of them, `one` at a time, or `none`, for a replica that serves the API only. With SQLite, `one` is the same as `each`.",
    ),
  leaseMs: wholeNumber(1_000, 3_600_000)
    .default(10_000)
    .describe(
      "With `runtime.mode: one`: the time after which another replica takes over when the one that runs the flows fails. The flows are stopped earlier if the store cannot be reached.",
    ),
  host: text
    .default("localhost")
    .describe(
      "Address that the HTTP-in nodes of flows listen on. They are not protected by `adminAuth`, but by `runtime.http.auth`. `localhost`: 127.0.0.1 and, if it exists, ::1.",
    ),
  port: port.default(1880).describe("Port of the HTTP-in nodes of flows. 0 selects a free port."),
  dir: text
    .optional()
    .describe("Working directory of the runtime. Flows can write only here, unless `runtime.allow` permits more."),
  modules: flag
    .default(true)
    .describe(
      "Whether the modules that `flowgate module install` has added are loaded. `false` starts the runtime without them.",
    ),
  http: flowHttp,
  contextStorage,
  globalContext,
  nodeSettings,
  deadlineMs: milliseconds
    .default(runtimeDefaults.deadlineMs)
    .describe(
      "Time limit for flows to start; at least 1 s plus 5 ms per node. The response to their deployment waits for that, at most 2 s longer. The deployment remains committed in any case.",
    ),
  maxOldSpaceMb: wholeNumber(16, 1_048_576)
    .optional()
    .describe("Maximum heap size of the runtime process in MiB. Absent: the default of Node.js."),
  nodeCloseTimeoutMs: milliseconds
    .default(runtimeDefaults.nodeCloseTimeoutMs)
    .describe("How long a node may take to stop before the runtime no longer waits for it."),
  freshProcess: oneOf(["never", "full", "always"])
    .default(runtimeDefaults.freshProcess)
    .describe(
      "Which deployments start in a new process, which ends all code of the previous flows and discards their context in memory: `never`, `full` (deployments that restart all nodes: `full` and `reload`) or `always`. A process in which no node has run is not replaced. Regardless of this option, a deployment does so if the previous flows have blocked the event loop for a second (even if they recovered or were started again), flooded the log or the channel to the service, used up their share of the connections and calls of the service, or failed too many logins. Their nodes then get half a second to close, and the log has the reason.",
    ),
  isolate: oneOf(["auto", "required", "off"])
    .default(runtimeDefaults.isolate)
    .describe(
      "Isolation of the flows, and of the processes that they start, by the operating system: `auto`, as far as this machine permits; `required`, or the service does not start; `off`. The log and `flowgate status` show the isolation in force. Linux only.",
    ),
  quarantine: oneOf(["off", "node", "tab"])
    .default("off")
    .describe(
      "Automatic quarantine of a function node whose code has blocked the event loop of the flows twice in a revision: disables the `node`, its `tab`, or nothing (`off`), so that the other nodes run. It is a deployment, which can be undone. Crashes do not count. Hostile flows can blame another function node.",
    ),
  user: wholeNumber(1, 4_294_967_294)
    .default(runtimeDefaults.user)
    .describe(
      "Id of the user and group of the flows, if the service may change them, as root can. No account is needed. Services on one machine that must not reach the files of each other's flows need different ones.",
    ),
  limits: z
    .strictObject({
      processes: wholeNumber(64, 1_000_000)
        .default(runtimeDefaults.limits.processes)
        .describe("Maximum number of processes and threads of the flows, if they are isolated."),
      openFiles: wholeNumber(256, 1_048_576)
        .default(runtimeDefaults.limits.openFiles)
        .describe(
          "Maximum number of open files and sockets of each runtime process; not more than the service may have.",
        ),
      fileSizeMb: wholeNumber(1, 1_048_576)
        .default(runtimeDefaults.limits.fileSizeMb)
        .describe("Maximum size in MiB of a file that flows write. A process that exceeds it is ended."),
    })
    .prefault({}),
  restart: z
    .strictObject({
      backoffMs: milliseconds
        .default(runtimeDefaults.restart.backoffMs)
        .describe(
          "Delay before the runtime process is restarted after an exit. Doubles with each further exit within `runtime.safeMode.withinMs`.",
        ),
      maxBackoffMs: milliseconds.default(runtimeDefaults.restart.maxBackoffMs).describe("Maximum restart delay."),
    })
    .prefault({}),
  safeMode: z
    .strictObject({
      exits: wholeNumber(1, 1000)
        .default(runtimeDefaults.safeMode.exits)
        .describe(
          "After this many unexpected exits of the runtime process within `runtime.safeMode.withinMs`, the runtime enters safe mode: the flows are not started until the next deployment or restart.",
        ),
      withinMs: milliseconds
        .default(runtimeDefaults.safeMode.withinMs)
        .describe("The time in which exits count for safe mode, however long each process ran."),
    })
    .prefault({}),
  network: z
    .strictObject({
      allow: networkRules
        .optional()
        .describe(
          "Permitted targets of flows over TCP and UDP: addresses, subnets or `*` for all, each with or without a port, such as `10.0.0.0/8`, `192.0.2.1:443`, `[2001:db8::/32]:443` or `*:443`. Absent: everything that is not denied. The ports of the service, and of its database, collector and token issuers on this machine, require entries that name them.",
        ),
      deny: networkRules
        .default([])
        .describe("Forbidden targets of flows, in the same form. Takes precedence over `runtime.network.allow`."),
    })
    .prefault({}),
  allow: z
    .strictObject({
      fileSystemRead: paths.default([]).describe("Additional paths that flows can read."),
      fileSystemWrite: paths
        .default([])
        .describe(
          "Additional paths that flows can write. Required for the path of a Unix socket that flows connect to.",
        ),
      childProcess: flag
        .default(false)
        .describe("Permits flows to start processes (exec node). Only `runtime.isolate` restricts these processes."),
      worker: flag
        .default(false)
        .describe("Permits flows to start worker threads. Most restrictions of the sandbox do not apply to them."),
      nativeAddons: flag
        .default(false)
        .describe("Permits flows to load native addons, to which the sandbox does not apply."),
      env: listOf(text, "names")
        .default([])
        .describe(
          "Names of environment variables that flows can read, in addition to `PATH` and the variables for time zone, locale and CA certificates.",
        ),
    })
    .prefault({}),
});
