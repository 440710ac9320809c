import { describe, expect, test } from "vitest";
import { tryDeploy } from "./deploy.ts";
import { tab } from "./flow-builders.ts";
import { useOperators } from "./operators.ts";

const { tokens, running, deployAs, activeFlows } = useOperators();

describe("conditions", () => {
  const past = "Sat, 01 Jan 2000 00:00:00 GMT";
  const future = "Fri, 01 Jan 2100 00:00:00 GMT";
  const post = (headers: Record<string, string>) =>
    tryDeploy(running(), { flows: [tab("conditional")] }, "full", { ...tokens["ada"], ...headers });

  test.each([
    ["If-Match", () => ({ "if-match": '"other"' }), 412],
    ["If-Match, which holds", (rev: string) => ({ "if-match": `"${rev}"` }), 200],
    ["If-None-Match: *", () => ({ "if-none-match": "*" }), 412],
    ["If-None-Match", (rev: string) => ({ "if-none-match": `"a", W/"${rev}"` }), 412],
    ["If-None-Match, which holds", () => ({ "if-none-match": '"other"' }), 200],
    ["If-Unmodified-Since", () => ({ "if-unmodified-since": past }), 412],
    ["If-Unmodified-Since, which holds", () => ({ "if-unmodified-since": future }), 200],
    ["If-Unmodified-Since, which isn't a date", () => ({ "if-unmodified-since": "2001" }), 200],
    [
      "If-Unmodified-Since beside If-Match, which wins",
      (rev: string) => ({ "if-match": `"${rev}"`, "if-unmodified-since": past }),
      200,
    ],
  ] as const)("%s", async (_, headers, status) => {
    const rev = await deployAs("ada", [tab("before")]);
    const reply = await post(headers(rev));
    expect(reply.status).toBe(status);
    const isRejected = status === 412;
    expect(reply.body.includes('"precondition_failed"')).toBe(isRejected);
    expect(await activeFlows()).toEqual([tab(isRejected ? "before" : "conditional")]);
  });

  test("must be valid", async () => {
    const reply = await post({ "if-none-match": "abc" });
    expect([reply.status, reply.json()]).toEqual([
      400,
      {
        code: "invalid_argument",
        message: 'If-None-Match: must be * or a list of entity tags, such as "abc"',
      },
    ]);
  });

  test("apply to a reload", async () => {
    const reload = (headers: Record<string, string>) =>
      tryDeploy(running(), { flows: [] }, "reload", { ...tokens["ada"], ...headers });
    expect((await reload({ "if-match": '"other"' })).status).toBe(412);
    expect((await reload({ "if-none-match": "*" })).status).toBe(412);
    expect((await reload({})).status).toBe(200);
  });

  test("the rev of a body is a version mismatch, which describes the active revision", async () => {
    const rev = await deployAs("bob", [tab("theirs")], { "service-deployment-message": "mine" });
    const reply = await tryDeploy(running(), { flows: [], rev: "other" }, "full", tokens["ada"]);
    expect(reply.status).toBe(409);
    expect(reply.json()).toEqual({
      code: "version_mismatch",
      message: `rev: the active revision is "${rev}": read it, resolve the differences and deploy again`,
      active: expect.objectContaining({ rev, user: "bob", message: "mine", active: true }) as unknown,
    });
    expect(reply.body).not.toContain("127.0.0.1");
  });
});
