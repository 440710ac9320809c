import type { Drill } from "./drill.ts";
import { manyStreams } from "./drills/fan-out.ts";
import { manyStreamsThroughProxies } from "./drills/fan-out-proxies.ts";
import { flowEscapes } from "./drills/flow-escapes.ts";
import { costlyCalls } from "./drills/costly-calls.ts";
import { costlyFlows } from "./drills/costly-flows.ts";
import { events } from "./drills/events.ts";
import { fsync } from "./drills/fsync.ts";
import { health } from "./drills/health.ts";
import { hostileFlows } from "./drills/hostile-flows.ts";
import { hostileInput } from "./drills/hostile-input.ts";
import { killAtSystemCalls } from "./drills/kill-at-system-calls.ts";
import { linearizability } from "./drills/linearizability.ts";
import { onlyLoopback } from "./drills/loopback.ts";
import { nodeWrites } from "./drills/node-writes.ts";
import { postgres } from "./drills/postgres.ts";
import { protocolFloods } from "./drills/protocol-floods.ts";
import { rollingRestarts } from "./drills/rolling-restarts.ts";
import { rotation } from "./drills/rotation.ts";
import { secretCanaries } from "./drills/secrets.ts";
import { exhaustion } from "./drills/exhaustion.ts";
import { memory } from "./drills/memory.ts";
import { soak } from "./drills/soak.ts";
import { storageFaults } from "./drills/storage-faults.ts";

export const drills: readonly Drill[] = [
  linearizability,
  killAtSystemCalls,
  fsync,
  storageFaults,
  postgres,
  nodeWrites,
  health,
  rotation,
  hostileInput,
  secretCanaries,
  rollingRestarts,
  hostileFlows,
  flowEscapes,
  costlyFlows,
  costlyCalls,
  protocolFloods,
  events,
  manyStreams,
  manyStreamsThroughProxies,
  onlyLoopback,
  exhaustion,
  memory,
  soak,
];
