import { randomBytes } from "node:crypto";
import { describe } from "vitest";
import { openPostgresStore } from "../../src/store/postgres/open-store.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { auditStoreContract } from "./audit-contract.ts";
import { flowStoreContract, type StoreLocation, tokenStoreContract } from "./contract.ts";

async function createLocation(): Promise<StoreLocation> {
  const database = await createDatabase();
  const key = randomBytes(32);
  return {
    open: () => openPostgresStore({ location: database.url.replace(/^postgres:/, ""), key }),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

describe("the flow store", () => {
  flowStoreContract(createLocation);
});

describe("the token store", () => {
  tokenStoreContract(createLocation);
});

describe("the audit store", () => {
  auditStoreContract(createLocation);
});
