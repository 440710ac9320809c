/** What users might expect, but no drill tests and no document promises. */
export const notPromised: readonly string[] = [
  "**Power failure.** The drills kill processes, not machines. They show that data is flushed with fsync before a deployment is " +
    "acknowledged; that fsync reaches the medium is up to the file system, the hypervisor and the disk.",
  "**A disk that returns wrong data.** SQLite detects a damaged database only in part. Keep [backups](operations.md#back-up-and-restore).",
  "**Messages inside of flows.** They are lost when the runtime is restarted, killed or replaced, as in Node-RED. What a flow has done " +
    "to other systems is not undone.",
  "**A security boundary around flows.** Hostile flows are isolated as far as [SECURITY.md](../SECURITY.md#limitations) says: they can " +
    "use the CPU, the network and the disk quota of the service's user.",
  "**Performance under attack.** The API stays available to operators. Its latencies under attack are figures, not promises, and " +
    "floods beyond the capacity of the machine or its network must be handled in front of the service.",
  "**Availability of a single instance.** While one instance restarts, calls fail. Without failed calls, restarts need several replicas " +
    "or instances, and a load balancer that follows the health checks.",
];
