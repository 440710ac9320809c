import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import type { Options } from "../options/parse.ts";
import { reportReplica } from "../replicas/runs.ts";
import type { Certificates } from "../server/http/certificates.ts";
import type { Server } from "../server/open-server.ts";
import type { Foundation } from "./foundation.ts";
import type { Listeners } from "./listeners.ts";
import type { Live } from "./events.ts";
import { replicaName } from "./replica-events.ts";
import type { Runtimes } from "./runtimes.ts";

type ReportedParts = Pick<Foundation, "options" | "listen" | "version" | "store" | "certificates"> &
  Pick<Runtimes, "runtime" | "monitor" | "moduleFollower"> &
  Pick<Listeners, "server"> & { readonly live: Pick<Live, "rename"> };

/** Tells the other replicas of this one, whose port may have been chosen by the system. Disposing the stack ends it. */
export function reportThisReplica(
  { options, listen, version, store, certificates, runtime, monitor, moduleFollower, server, live }: ReportedParts,
  stack: AsyncDisposableStack,
): void {
  const { cluster, flows, desired } = store;
  if (cluster === undefined) {
    return;
  }
  const name = replicaName(listen ? server.port : undefined);
  live.rename(name);
  stack.use(
    reportReplica({
      cluster,
      runtime,
      store: flows,
      desired,
      name,
      version,
      mode: options.runtime.mode,
      health: monitor,
      address: replicaAddress(options, server),
      certificate: () => leafOf(certificates),
      onCertificateChange: (listener) => certificates?.onChange(listener),
      onModulesChange: (listener) => moduleFollower.onChange(listener),
    }),
  );
}

/** The URL at which other replicas reach this one; undefined: they can't. */
function replicaAddress(
  { live: { address }, host }: Pick<Options, "live" | "host">,
  { url }: Pick<Server, "url">,
): string | undefined {
  if (address !== undefined || url === "") {
    return address;
  }
  const own = new URL(url);
  if (host === "0.0.0.0" || host === "::") {
    const external = findExternalAddress(host === "0.0.0.0");
    own.hostname = external ?? own.hostname;
  } else if (isIP(host) === 0 && host !== "localhost") {
    own.hostname = host;
  }
  return own.origin;
}

/** An address of this machine that others may reach. */
function findExternalAddress(isOnlyIPv4: boolean): string | undefined {
  const all = Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .filter(({ internal, address }) => !internal && !/^(?:169\.254\.|fe80:)/i.test(address));
  const found = all.find(({ family }) => family === "IPv4") ?? (isOnlyIPv4 ? undefined : all[0]);
  return found && (found.family === "IPv6" ? `[${found.address}]` : found.address);
}

/** The first certificate of a chain. */
function leafOf(certificates: Certificates | undefined): string | undefined {
  return /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/.exec(
    String(certificates?.current().cert ?? ""),
  )?.[0];
}
