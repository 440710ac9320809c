import * as z from "zod";
import { runtimeDefaults } from "../runtime/options.ts";
import { flag, milliseconds, paths, port, text, wholeNumber } from "./values.ts";

export const runtime = z.strictObject({
  host: text
    .default("127.0.0.1")
    .describe("Where the flows' own HTTP-in nodes answer. They are not behind `adminAuth`."),
  port: port.default(1880).describe("The port of the flows' HTTP-in nodes; 0 takes a free one."),
  dir: text
    .optional()
    .describe(
      "The runtime's working directory. Flows may write here, and nowhere else unless `runtime.allow` says so.",
    ),
  deadlineMs: milliseconds
    .default(runtimeDefaults.deadlineMs)
    .describe("How long a deployment's answer waits for the runtime at most; the deployment stands all the same."),
  maxOldSpaceMb: wholeNumber(16, 1_048_576)
    .optional()
    .describe("The heap that the runtime's process may take, in MiB. Absent: Node's own limit."),
  nodeCloseTimeoutMs: milliseconds
    .default(runtimeDefaults.nodeCloseTimeoutMs)
    .describe("How long a node may take to stop before it is left behind."),
  restart: z
    .strictObject({
      backoffMs: milliseconds
        .default(runtimeDefaults.restart.backoffMs)
        .describe("The pause before a runtime that ended is started again; doubled each time."),
      maxBackoffMs: milliseconds.default(runtimeDefaults.restart.maxBackoffMs).describe("The longest such pause."),
      shortLifeMs: milliseconds
        .default(runtimeDefaults.restart.shortLifeMs)
        .describe("A runtime that ends sooner than this had a short life."),
      safeModeAfter: wholeNumber(1, 1000)
        .default(runtimeDefaults.restart.safeModeAfter)
        .describe(
          "After so many short lives in a row the flows are loaded but not started, until the next deployment.",
        ),
    })
    .prefault({}),
  allow: z
    .strictObject({
      fileSystemRead: paths.default([]).describe("More paths that flows may read, besides the runtime's own."),
      fileSystemWrite: paths
        .default([])
        .describe("More paths that flows may write, besides `runtime.dir`; a Unix socket needs its path here."),
      childProcess: flag
        .default(false)
        .describe("Whether flows may start processes (the exec node). Such processes are free of all limits."),
      worker: flag
        .default(false)
        .describe("Whether flows may start worker threads. Such threads are free of most limits."),
      nativeAddons: flag.default(false).describe("Whether flows may load native addons."),
      env: z
        .array(text, "must be a list of names")
        .readonly()
        .default([])
        .describe("The environment variables that flows may see."),
    })
    .prefault({}),
});
