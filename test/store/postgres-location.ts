import { openPostgresStore } from "../../src/store/postgres/open-store.ts";
import type { Store } from "../../src/store/store.ts";

export function openAt(url: string, key: Buffer): Promise<Store> {
  return openPostgresStore({ location: url.slice("postgres:".length), key });
}
