import { expect, test } from "vitest";
import { documentLimits } from "../../src/store/document-store.ts";
import type { StoreLocation } from "./contract.ts";

const greeting = { name: "library/functions/greet", details: '{"outputs":2}', content: "return msg;", by: "ada" };

/** The contract of `DocumentStore`. */
export function documentContract(createLocation: () => Promise<StoreLocation>): void {
  test("a document is found by its name, and kept", async () => {
    await using location = await createLocation();
    {
      await using store = await location.open();
      expect(await store.documents.find(greeting.name)).toBeUndefined();
      await store.documents.put(greeting);
    }
    await using store = await location.open();
    expect(await store.documents.find(greeting.name)).toEqual(greeting);
  });

  test("a document replaces the one with its name", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.documents.put(greeting);
    await store.documents.put({ ...greeting, content: "return null;", by: undefined });
    expect(await store.documents.find(greeting.name)).toEqual({ ...greeting, content: "return null;", by: undefined });
    expect(await store.documents.list("")).toHaveLength(1);
  });

  test("a document is written with its audit entry, or not at all", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const origin = { by: "ada", address: "127.0.0.1", protocol: "rest", requestId: "1" };
    const entry = { kind: "library_written", origin, subject: "functions/greet" } as const;
    await store.documents.put(greeting, entry);
    const large = { ...greeting, content: "x".repeat(documentLimits.totalBytes) };
    await expect(store.documents.put(large, entry)).rejects.toMatchObject({ reason: "limit_exceeded" });
    const { entries } = await store.audit.list({ limit: 10, order: "newest" });
    expect(entries).toMatchObject([{ kind: "library_written", subject: "functions/greet", origin: { by: "ada" } }]);
  });

  test("documents are listed by the beginning of their names, literally and without their content", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    for (const name of ["a_/2", "a_/1", "ab/3", "ä𝄞/4", "a_"]) {
      await store.documents.put({ ...greeting, name });
    }
    const { content: _, ...listed } = greeting;
    expect(await store.documents.list("a_/")).toEqual([
      { ...listed, name: "a_/1" },
      { ...listed, name: "a_/2" },
    ]);
    expect(await store.documents.list("ä𝄞/")).toEqual([{ ...listed, name: "ä𝄞/4" }]);
    expect(await store.documents.list("A_/")).toEqual([]);
  });

  test("a document beyond the limit is rejected, and changes nothing", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.documents.put(greeting);
    const large = "x".repeat(documentLimits.totalBytes);
    // Lists contain the details of all documents.
    for (const change of [{ content: large }, { details: JSON.stringify({ name: large }) }]) {
      await expect(store.documents.put({ ...greeting, ...change })).rejects.toMatchObject({ reason: "limit_exceeded" });
    }
    expect(await store.documents.find(greeting.name)).toEqual(greeting);
  });
}
