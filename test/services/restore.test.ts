import { expect, test } from "vitest";
import { parseDocument } from "@flowgate/flows";
import { draft } from "../store/builders.ts";
import { openFlows } from "./flows-under-test.ts";

const padding = "x".repeat(200_000);

test.each([
  { json: `[{"id":"a","type":"t"},{"id":"constructor","type":"t"}]`, why: `flows[1].id: must not be "constructor"` },
  { json: `[{"id":"__proto__","type":"t"}]`, why: `flows[0].id: must not be "__proto__"` },
  { json: `[{"id":"a","type":"link in","links":["b","toString"]}]`, why: `flows[0].links[1]: must not be "toString"` },
  { json: `[{"id":"a","type":"t","set":{"__proto__":1}}]`, why: "flows[0].set.__proto__: this key is not allowed" },
  { json: `[{"id":"constructor","type":"t","name":"${padding}"}]`, why: `flows[0].id: must not be "constructor"` },
])(
  "a stored revision with a name that the runtime can't use is read, and not deployed again: $why",
  async ({ json, why }) => {
    await using flows = await openFlows();
    const { store } = flows;
    const old = await store.commit(draft(store.active().rev, { flows: parseDocument(Buffer.from(json)) }));
    const { rev } = await store.commit(draft(old.rev));

    const undone = await flows.send("POST", "/flows:undo");
    expect(undone).toMatchObject({ status: 400, body: { code: "invalid_flows" } });
    const { message } = undone.body as { message: string };
    expect(message.startsWith(why)).toBe(true);
    expect(message.endsWith(`"${old.rev}" is older than this rule: read it, correct its flows and deploy them`)).toBe(
      true,
    );
    const restored = await flows.send("POST", `/revisions/${old.rev}:restore`);
    expect(restored).toMatchObject({ status: 400, body: undone.body });
    expect(store.active().rev).toBe(rev);

    const read = await flows.send("GET", `/revisions/${old.rev}?view=FULL`);
    expect((read.body as { flows: unknown }).flows).toEqual(JSON.parse(json));
    expect((await flows.send("GET", `/revisions/${rev}:diff`)).status).toBe(200);
  },
);
