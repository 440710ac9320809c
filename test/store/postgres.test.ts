import { randomBytes } from "node:crypto";
import { describe } from "vitest";
import { auditStoreContract } from "./audit-contract.ts";
import { flowStoreContract, type StoreLocation, tokenStoreContract } from "./contract.ts";
import { loginAttemptsContract } from "./login-contract.ts";
import { openAt } from "./postgres-location.ts";
import { createDatabase } from "../postgres/postgres.ts";

async function createLocation(): Promise<StoreLocation> {
  const database = await createDatabase();
  const key = randomBytes(32);
  return {
    open: () => openAt(database.url, key),
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

describe("the login attempts", () => {
  loginAttemptsContract(createLocation);
});
