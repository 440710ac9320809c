import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { systemOrigin } from "../../src/store/audit-store.ts";
import { token } from "../auth/memory-tokens.ts";
import { openPgbouncer, pgbouncer } from "../postgres/pgbouncer.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { draft } from "./builders.ts";
import { openAt } from "./postgres-location.ts";
import { needs } from "../needs.ts";

/** Only for failures. */
const longWait = { timeout: 60_000 };

describe("replicas behind pgbouncer", needs("pgbouncer", existsSync(pgbouncer)), () => {
  test.each(["session", "transaction"] as const)("in mode %s", async (mode) => {
    await using database = await createDatabase();
    await using pooler = await openPgbouncer(database.url, mode);
    const key = randomBytes(32);
    await using here = await openAt(pooler.url, key);
    await using there = await openAt(pooler.url, key);
    for (let count = 0; count < 20; count += 1) {
      const [writer, reader] = count % 2 === 0 ? [here, there] : [there, here];
      const { rev } = await writer.flows.commit(draft(writer.flows.active().rev));
      await expect.poll(() => reader.flows.active().rev, longWait).toBe(rev);
    }
    const revoked: (Uint8Array | undefined)[] = [];
    there.tokens.onRevoked((hash) => revoked.push(hash));
    const one = token();
    await here.tokens.insert(one, { kind: "token_created", origin: systemOrigin });
    await here.tokens.remove({ id: one.id }, { kind: "token_revoked", origin: systemOrigin });
    await expect.poll(() => revoked, longWait).toEqual([one.hash]);
    expect(await there.audit.verify()).toMatchObject({ entries: 22, problem: undefined });
  });
});
