import { randomBytes } from "node:crypto";
import type { StoreLocation } from "./contract.ts";
import { openAt } from "./postgres-location.ts";
import { storeContract } from "./store-contract.ts";
import { createDatabase } from "../postgres/postgres.ts";

async function createLocation(): Promise<StoreLocation> {
  const database = await createDatabase();
  const key = randomBytes(32);
  return {
    open: () => openAt(database.url, key),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

storeContract(createLocation);
