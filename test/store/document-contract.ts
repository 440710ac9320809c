import { expect, test } from "vitest";
import { documentLimits, documentsOfPage } from "../../src/store/document-store.ts";
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
    expect(await store.documents.list("library/functions/")).toHaveLength(1);
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

  test("a folder has the documents and folders that are directly in it, by their literal names", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    for (const name of ["a_/2", "a_/1", "a_/c/4", "a_/c/5", "a_/b/d/6", "ab/3", "ä𝄞/4", "a_"]) {
      await store.documents.put({ ...greeting, name });
    }
    const { content: _, ...listed } = greeting;
    expect(await store.documents.list("a_/")).toEqual([
      { ...listed, name: "a_/1" },
      { ...listed, name: "a_/2" },
    ]);
    expect(await store.documents.listFolders("a_/")).toEqual(["b", "c"]);
    expect(await store.documents.list("ä𝄞/")).toEqual([{ ...listed, name: "ä𝄞/4" }]);
    expect(await store.documents.list("A_/")).toEqual([]);
    expect(await store.documents.listFolders("a_/c/")).toEqual([]);
  });

  test("the documents of a folder are listed in pages", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const names = Array.from({ length: documentsOfPage + 2 }, (_, at) => `a/${at}`).toSorted();
    for (const name of names) {
      await store.documents.put({ ...greeting, name });
      await store.documents.put({ ...greeting, name: `a/0/${name}` });
    }
    const first = await store.documents.list("a/");
    expect(first.map(({ name }) => name)).toEqual(names.slice(0, documentsOfPage));
    const last = await store.documents.list("a/", first.at(-1)?.name);
    expect(last.map(({ name }) => name)).toEqual(names.slice(documentsOfPage));
    expect(await store.documents.list("a/", names.at(-1))).toEqual([]);
  });

  test("a document beyond the limit is rejected, and changes nothing", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.documents.put(greeting);
    const large = "x".repeat(documentLimits.totalBytes);
    // Both count.
    for (const change of [{ content: large }, { details: JSON.stringify({ name: large }) }]) {
      await expect(store.documents.put({ ...greeting, ...change })).rejects.toMatchObject({ reason: "limit_exceeded" });
    }
    expect(await store.documents.find(greeting.name)).toEqual(greeting);
  });
}
