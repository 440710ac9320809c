import { describe } from "vitest";
import { auditStoreContract } from "./audit-contract.ts";
import { flowStoreContract, type StoreLocation, tokenStoreContract } from "./contract.ts";
import { desiredStateContract } from "./desired-state-contract.ts";
import { contextContract } from "./context-contract.ts";
import { documentContract } from "./document-contract.ts";
import { journalStoreContract } from "./journal-contract.ts";
import { loginAttemptsContract } from "./login-contract.ts";
import { nodeCredentialsContract } from "./node-credentials-contract.ts";
import { proposalStoreContract } from "./proposal-contract.ts";
import { moduleStoreContract } from "./module-contract.ts";
import { settingContract } from "./setting-contract.ts";

/** The contract of `Store`, for an adapter. */
export function storeContract(createLocation: () => Promise<StoreLocation>): void {
  describe("the flow store", () => {
    flowStoreContract(createLocation);
  });

  describe("the proposals", () => {
    proposalStoreContract(createLocation);
  });

  describe("the modules", () => {
    moduleStoreContract(createLocation);
  });

  describe("the desired state", () => {
    desiredStateContract(createLocation);
  });

  describe("the token store", () => {
    tokenStoreContract(createLocation);
  });

  describe("the audit store", () => {
    auditStoreContract(createLocation);
  });

  describe("the documents", () => {
    documentContract(createLocation);
  });

  describe("the context", () => {
    contextContract(createLocation);
  });

  describe("the credentials that nodes write", () => {
    nodeCredentialsContract(createLocation);
  });

  describe("the settings", () => {
    settingContract(createLocation);
  });

  describe("the login attempts", () => {
    loginAttemptsContract(createLocation);
  });

  describe("the journal", () => {
    journalStoreContract(createLocation);
  });
}
