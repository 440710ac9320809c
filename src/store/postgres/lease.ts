import type { Lease, LeaseReply } from "../cluster.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";

/** Tokens of a timeline are greater than those of the one before. */
const tokensPerTimeline = 2 ** 32;

type LeaseRow = { holder: string; token: number; ms_left: number };

/** `id` is that of the replica. */
export function createLease(database: Database, changes: Changes, id: string): Lease {
  /** The lease that this replica holds. */
  let own: { readonly token: number; readonly untilMs: number } | undefined;
  /** A lease of the timeline before, which a replica may have renewed or acquired on the server that was replaced. */
  let inherited: { readonly token: number; readonly untilMs: number } | undefined;

  /** How long a lease must still be respected. */
  function msLeft({ holder, token, ms_left }: LeaseRow, firstToken: number, durationMs: number): number {
    if (token >= firstToken) {
      return holder === id ? 0 : ms_left;
    }
    if (own?.token === token && performance.now() < own.untilMs) {
      return 0;
    }
    if (inherited?.token !== token) {
      inherited = { token, untilMs: performance.now() + durationMs };
    }
    return Math.max(ms_left, inherited.untilMs - performance.now());
  }

  return {
    async hold(durationMs) {
      const sentMs = performance.now();
      const reply = await database.transaction(async (query, { timeline }): Promise<LeaseReply> => {
        const firstToken = timeline * tokensPerTimeline;
        await query(
          `INSERT INTO flowgate.lease (name, holder, token, ends_at) VALUES ('runtime', '', $1, clock_timestamp())
           ON CONFLICT DO NOTHING`,
          [firstToken],
        );
        const [row] = await query<LeaseRow>(
          `SELECT holder, token, ceil(1000 * extract(epoch FROM ends_at - clock_timestamp()))::bigint AS ms_left
           FROM flowgate.lease WHERE name = 'runtime' FOR UPDATE`,
        );
        if (row === undefined) {
          throw new Error("the lease was removed from the database");
        }
        // Read after the lock was obtained: the time may have passed meanwhile.
        const forMs = msLeft(row, firstToken, durationMs);
        if (forMs > 0) {
          return { isHeld: false, forMs };
        }
        const token = row.holder === id && row.token >= firstToken ? row.token : Math.max(row.token, firstToken) + 1;
        await query(
          `UPDATE flowgate.lease SET holder = $1, token = $2, ends_at = clock_timestamp() + $3 * interval '1 ms'
           WHERE name = 'runtime'`,
          [id, token, durationMs],
        );
        return { isHeld: true, token };
      });
      own = reply.isHeld ? { token: reply.token, untilMs: sentMs + durationMs } : undefined;
      return reply;
    },

    async release() {
      own = undefined;
      await database.transaction(async (query) => {
        await query(
          "UPDATE flowgate.lease SET holder = '', ends_at = clock_timestamp() WHERE name = 'runtime' AND holder = $1",
          [id],
        );
        await changes.announce(query);
      });
    },
  };
}
