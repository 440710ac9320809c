import { createContextValues } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { peerKey } from "../../src/auth/caller.ts";
import { findRevision } from "../../src/services/responses.ts";
import { openFlows } from "./flows-under-test.ts";

test("reserves the memory of a revision before it is loaded, but none of the active one", async () => {
  const loaded: string[] = [];
  await using flows = await openFlows();
  const { store } = flows;
  const find: typeof store.find = (rev) => {
    loaded.push(rev);
    return store.find(rev);
  };
  const reserved: number[] = [];
  const values = createContextValues().set(peerKey, {
    address: "",
    requestId: "",
    async reserveDocument(bytes) {
      reserved.push(bytes);
      if (reserved.length > 1) {
        throw new Error("busy");
      }
    },
  });
  await flows.send("POST", "/flows", [{ id: "a", type: "tab" }]);
  const earlier = store.active();
  await flows.send("POST", "/flows", []);
  const read = (rev: string) => findRevision({ ...store, find }, rev, { values });

  expect((await read(store.active().rev)).rev).toBe(store.active().rev);
  expect(reserved).toEqual([]);
  expect((await read(earlier.rev)).rev).toBe(earlier.rev);
  expect(reserved).toEqual([earlier.flows.json.length]);
  await expect(read(earlier.rev)).rejects.toThrow("busy");
  expect(loaded).toEqual([store.active().rev, earlier.rev]);
});
