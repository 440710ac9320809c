import { expect, test } from "vitest";
import type { CredentialSets } from "@flowgate/flows";
import { type DraftWrites, LaterWrites, writtenLimits } from "../../src/store/node-credentials.ts";
import type { Store } from "../../src/store/store.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { draft } from "./builders.ts";
import type { StoreLocation } from "./contract.ts";

/** The contract of what `FlowStore` stores for nodes. */
export function nodeCredentialsContract(createLocation: () => Promise<StoreLocation>): void {
  test("what a node writes replaces its credentials, also after the store was opened again", async () => {
    await using location = await createLocation();
    const tokens = new Map([
      ["a", new Map<string, never>(Object.entries({ token: "t2", expires: 17, odd: [{}] }) as [])],
    ]);
    {
      await using store = await location.open();
      const { seq } = await deploy(store, tokenOf("t1"));
      const seen: CredentialSets[] = [];
      store.flows.onCredentials((credentials) => seen.push(credentials));
      expect(await write(store, tokens)).toEqual(new Map([["a", "written"]]));
      expect(store.flows.active()).toMatchObject({ seq, credentials: tokens });
      expect(seen).toEqual([tokens]);
      const { entries } = await store.audit.list({ limit: 1, order: "newest" });
      expect(entries).toMatchObject([{ kind: "credentials_written", subject: "a", detail: "inject" }]);
      expect(JSON.stringify(entries)).not.toContain("t2");
    }
    await using store = await location.open();
    expect(store.flows.active().credentials).toEqual(tokens);
  });

  test("an earlier revision has what a node has written since, and a later one its own", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev: first } = await deploy(store, tokenOf("t1"));
    const { rev: second, seq } = await deploy(store, tokenOf("t2"));
    await write(store, tokenOf("t3"));
    const { rev: third } = await deploy(store, tokenOf("s4"), { submitted: new Set(["a"]) });
    expect(await Promise.all([first, second, third].map((rev) => tokenAt(store, rev)))).toEqual(["t3", "t3", "s4"]);
    const types = new Map([["a", "inject"]]);
    expect(await store.flows.findCredentials(first, types)).toEqual(tokenOf("t3"));
    expect(await store.flows.findCredentials(first, new Map([["a", "other"]]))).toEqual(tokenOf("t1"));
    await store.flows.prune({ maxCount: 1, maxAgeMs: undefined });
    expect((await store.flows.find(second))?.seq).toBe(seq);
    expect(await tokenAt(store, second)).toBe("t3");
    expect(await tokenAt(store, third)).toBe("s4");
  });

  test("a node of another type does not get what was written", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await deploy(store, tokenOf("t1"), {}, "other");
    await deploy(store, tokenOf("t1"));
    await write(store, tokenOf("t2"));
    expect(await tokenAt(store, rev)).toBe("t1");
  });

  test("a write between reading and commit is kept, unless the deployment determines it", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await deploy(store, tokenOf("t1"));
    const { writtenSeq: seq = 0 } = store.flows.active();
    await write(store, tokenOf("t2"));
    expect((await deploy(store, tokenOf("t1"), { seq })).credentials).toEqual(tokenOf("t2"));
    expect(store.flows.active().credentials).toEqual(tokenOf("t2"));
    const determined = { seq, submitted: new Set(["a"]) };
    const before = store.flows.active();
    await expect(deploy(store, tokenOf("s3"), determined)).rejects.toThrow(LaterWrites);
    await expect(deploy(store, tokenOf("s3"), { seq, submitted: "all" })).rejects.toThrow(LaterWrites);
    expect(store.flows.active()).toBe(before);
    await deploy(store, tokenOf("s3"), { ...determined, replacesLater: true });
    expect(store.flows.active().credentials).toEqual(tokenOf("s3"));
  });

  test("a write of nodes of before a deployment is ignored if that has determined their credentials", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { seq } = await deploy(store, tokenOf("t1"));
    await deploy(store, tokenOf("s2"), { submitted: new Set(["a"]) });
    expect(await write(store, tokenOf("t3"), seq)).toEqual(new Map([["a", "superseded"]]));
    expect(store.flows.active().credentials).toEqual(tokenOf("s2"));
    await deploy(store, tokenOf("s2"));
    expect(await write(store, tokenOf("t3"), seq)).toEqual(new Map([["a", "superseded"]]));
    expect(await write(store, tokenOf("t3"))).toEqual(new Map([["a", "written"]]));
    expect(store.flows.active().credentials).toEqual(tokenOf("t3"));
  });

  test("an empty set removes the credentials of a node", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await deploy(store, tokenOf("t1"));
    await deploy(store, tokenOf("t1"));
    await write(store, new Map([["a", new Map()]]));
    expect(store.flows.active().credentials).toEqual(new Map());
    expect((await store.flows.find(rev))?.credentials).toEqual(new Map());
  });

  test("what is written for a node that is not deployed is separate until a revision claims it", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await deploy(store, tokenOf("t1"));
    const odd = "\0 \ud800 __proto__";
    expect(await write(store, new Map([[odd, new Map([["code", "c1"]])]]))).toEqual(new Map([[odd, "written"]]));
    expect(store.flows.active()).toMatchObject({ rev, credentials: tokenOf("t1") });
    expect(store.flows.unclaimedCredentials()).toEqual(new Map([[odd, new Map([["code", "c1"]])]]));
    // It may have the node.
    await expect(deploy(store, tokenOf("t1"), { seq: 0 })).rejects.toThrow(LaterWrites);
    await deploy(store, tokenOf("t1"), { claimed: [odd] });
    expect(store.flows.unclaimedCredentials()).toEqual(new Map());
    const many = Array.from({ length: writtenLimits.unclaimed + 1 }, (_, at) => [`n${at}`, new Map()] as const);
    const results = await write(store, new Map(many));
    expect([...(results?.values() ?? [])].filter((result) => result === "full")).toEqual(["full"]);
  });
}

function tokenOf(token: string): CredentialSets {
  return new Map([["a", new Map([["token", token]])]]);
}

function deploy(store: Store, credentials: CredentialSets, writes: Partial<DraftWrites> = {}, type = "inject") {
  const { rev, writtenSeq = 0 } = store.flows.active();
  const defaults = { seq: writtenSeq, submitted: new Set<string>(), claimed: [], replacesLater: false };
  const flows = documentOf([{ id: "a", type }]);
  return store.flows.commit(draft(rev, { flows, credentials, writes: { ...defaults, ...writes } }));
}

function write(store: Store, sets: CredentialSets, sinceSeq?: number) {
  return store.flows.writeCredentials({ sets, sinceSeq, token: undefined });
}

async function tokenAt(store: Store, rev: string): Promise<unknown> {
  return (await store.flows.find(rev))?.credentials.get("a")?.get("token");
}
