import type { Replica, ReplicaRun, ReplicaStatus } from "../../src/store/cluster.ts";

export function run(init: Partial<ReplicaRun> = {}): ReplicaRun {
  return { rev: "r1", seq: 1, outcome: "running", message: undefined, missingTypes: [], ...init };
}

export function status(name: string, init: Partial<ReplicaStatus> = {}): ReplicaStatus {
  return { name, version: "0", mode: "each", state: "running", run: run(), ...init };
}

export function replica(name: string, init: Partial<Replica> = {}): Replica {
  return { ...status(name), id: name, isSelf: false, seenMsAgo: 0, ...init };
}
