import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Service } from "../test/e2e/service.ts";

/** Checks the database of a running service, and its audit log. Returns a description of each fault. */
export async function findDamage({ send, dataDir }: Pick<Service, "send" | "dataDir">): Promise<string[]> {
  const { status, body } = await send("GET", "/audit:verify");
  return [
    ...checkIntegrity(dataDir),
    ...(status === 200 && /"intact": ?true/.test(body) ? [] : [`the audit log is not intact: ${body}`]),
  ];
}

function checkIntegrity(dataDir: string): string[] {
  using db = new DatabaseSync(join(dataDir, "flowgate.db"));
  const rows = db.prepare("PRAGMA integrity_check").all() as { integrity_check: string }[];
  return rows.map(({ integrity_check: text }) => text).filter((text) => text !== "ok");
}
