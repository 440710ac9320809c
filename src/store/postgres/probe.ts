import type { Client } from "pg";
import type { ServerConfig } from "./authentication.ts";
import { connect } from "./connect.ts";
import { limits } from "./limits.ts";
import { NotPrimary } from "./postgres-error.ts";
import { createSockets } from "./sockets.ts";

/** A server that accepts writes. */
export type ProbedServer = {
  readonly config: ServerConfig;
  /** The id of its timeline, which increases when a standby is promoted; 0 if it is unknown. */
  readonly timeline: number;
  /** Whether its setting is that commits are on the disk before they are reported. */
  readonly isDurable: boolean;
};

/** Resolves if the server is a primary, and not one that was replaced. */
export async function probe(config: ServerConfig, minTimeline: number): Promise<ProbedServer> {
  const sockets = createSockets();
  setTimeout(() => sockets.destroy(), limits.probeMs).unref();
  const client = await connect(config, sockets);
  try {
    const { rows } = await client.query<{ writable: boolean; durable: boolean }>(
      "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable, " +
        "current_setting('synchronous_commit') <> 'off' AS durable",
    );
    const [settings] = rows;
    if (settings?.writable !== true) {
      throw new NotPrimary("the server is a standby");
    }
    const timeline = await readTimeline(client);
    if (timeline < minTimeline) {
      throw new NotPrimary("the server was replaced by a promoted standby");
    }
    return { config, timeline, isDurable: settings.durable };
  } finally {
    void client.end().catch(() => {});
  }
}

async function readTimeline(client: Client): Promise<number> {
  try {
    const { rows } = await client.query<{ timeline: number }>(
      "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline",
    );
    return rows[0]?.timeline ?? 0;
  } catch {
    // Some hosted databases have no log files that SQL can name.
    return 0;
  }
}
