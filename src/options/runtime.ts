import * as z from "zod";
import { runtimeDefaults } from "../runtime/options.ts";
import { flag, milliseconds, paths, port, text, wholeNumber } from "./values.ts";

export const runtime = z.strictObject({
  host: text
    .default("127.0.0.1")
    .describe("The address of the flows' own HTTP-in nodes, which `adminAuth` does not protect."),
  port: port.default(1880).describe("The port of the flows' HTTP-in nodes; 0 takes a free one."),
  dir: text
    .optional()
    .describe(
      "The working directory of the runtime, and the only place where flows may write, apart from `runtime.allow`.",
    ),
  deadlineMs: milliseconds
    .default(runtimeDefaults.deadlineMs)
    .describe(
      "How long the response to a deployment waits for the runtime; after that, the deployment stays in effect.",
    ),
  maxOldSpaceMb: wholeNumber(16, 1_048_576)
    .optional()
    .describe("Maximum heap size of the runtime process, in MiB. Absent: Node's default."),
  nodeCloseTimeoutMs: milliseconds
    .default(runtimeDefaults.nodeCloseTimeoutMs)
    .describe("How long to wait for a node to stop."),
  restart: z
    .strictObject({
      backoffMs: milliseconds
        .default(runtimeDefaults.restart.backoffMs)
        .describe("Delay before the runtime is restarted after an exit; doubled each time."),
      maxBackoffMs: milliseconds.default(runtimeDefaults.restart.maxBackoffMs).describe("Maximum of this delay."),
      shortLifeMs: milliseconds
        .default(runtimeDefaults.restart.shortLifeMs)
        .describe("A runtime that exits sooner than this counts as a failed start."),
      safeModeAfter: wholeNumber(1, 1000)
        .default(runtimeDefaults.restart.safeModeAfter)
        .describe(
          "Number of consecutive failed starts after which the flows are loaded but not started, until the next deployment.",
        ),
    })
    .prefault({}),
  allow: z
    .strictObject({
      fileSystemRead: paths.default([]).describe("Additional paths that flows may read."),
      fileSystemWrite: paths
        .default([])
        .describe("Paths that flows may write, in addition to `runtime.dir`; required for a Unix socket too."),
      childProcess: flag
        .default(false)
        .describe("Whether flows may start processes (the exec node), which are not restricted."),
      worker: flag.default(false).describe("Whether flows may start worker threads, which are mostly unrestricted."),
      nativeAddons: flag.default(false).describe("Whether flows may load native addons."),
      env: z
        .array(text, "must be a list of names")
        .readonly()
        .default([])
        .describe("The environment variables that flows may read."),
    })
    .prefault({}),
});
