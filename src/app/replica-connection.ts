import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { X509Certificate } from "node:crypto";
import type { SecureClientSessionOptions } from "node:http2";
import { ReplicasService } from "../../gen/flowgate/replicas/v1/replicas_pb.ts";
import type { ReplicaConnection } from "../events/replicas/link.ts";
import { formatAuthorization, isProof, type ReplicaKeys } from "../events/replicas/proof.ts";
import type { Certificates } from "../server/http/certificates.ts";
import type { Cluster, Replica } from "../store/cluster.ts";

// Loaded when events of other replicas are read.

export type ReplicaConnectionOptions = {
  readonly cluster: Pick<Cluster, "id">;
  readonly keys: ReplicaKeys;
  /** The certificates of this replica. */
  readonly certificates: Certificates | undefined;
};

/** The interval of connection checks, and the time limit of their response. */
const pingMs = 2_000;

/** More than any event. */
const maxMessageBytes = 16 * 1024 * 1024;

/** Nothing is sent until the first call. Throws if the replica has no address. */
export function openReplicaConnection(
  { cluster, keys, certificates }: ReplicaConnectionOptions,
  { id, address, certificate }: Pick<Replica, "id" | "address" | "certificate">,
): ReplicaConnection {
  if (address === undefined) {
    throw new Error("it has no address: set its option live.address");
  }
  const session = new Http2SessionManager(
    address,
    // Not while it is idle: of a connection that is closed with open streams, Connect would set the timer of the next ping when they have
    // ended, and the ping would throw in it. An idle one is checked before a call.
    { pingIntervalMs: pingMs, pingTimeoutMs: pingMs },
    certificate === undefined ? {} : tlsOptions(certificate, certificates),
  );
  const transport = createGrpcTransport({
    baseUrl: address,
    sessionManager: session,
    acceptCompression: [],
    readMaxBytes: maxMessageBytes,
  });
  return {
    client: createClient(ReplicasService, transport),
    authorize: () => formatAuthorization(keys, cluster.id, id),
    isProof: (authorization, proof) => isProof(keys, authorization, proof),
    [Symbol.dispose]: () => session.abort(),
  };
}

/** The replica presents the certificate that it has written to the store, whichever name it contains. */
function tlsOptions(certificate: string, certificates: Certificates | undefined): SecureClientSessionOptions {
  const { fingerprint256 } = new X509Certificate(certificate);
  return {
    ...certificates?.current(),
    ca: [certificate],
    allowPartialTrustChain: true,
    checkServerIdentity: (_, presented) =>
      presented.fingerprint256 === fingerprint256
        ? undefined
        : new Error("its certificate differs from the one that it wrote to the store"),
  };
}
