import { create } from "@bufbuild/protobuf";
import { ContainerKind, ProposalSchema, ProposalState } from "@flowgate/client";
import { expect, test } from "vitest";
import { decisionsOf, describeChanges, describeModule, stateOf } from "../../../src/pages/proposals/view.ts";

const session = (username: string, ...permissions: readonly string[]) => ({
  username,
  can: (permission: string) => permissions.includes(permission),
});

const open = { state: ProposalState.OPEN, user: "ada" };

test.each<[who: string, session: Parameters<typeof decisionsOf>[1], can: readonly string[]]>([
  ["another user with the permission", session("bob", "flows.approve"), ["approve", "reject"]],
  ["another user without it", session("bob", "flows.propose"), []],
  ["the proposer, with all permissions", session("ada", "flows.approve", "flows.propose"), ["withdraw"]],
  ["the proposer, who may not propose any more", session("ada", "flows.approve"), []],
  ["nobody in particular", session("", "flows.approve", "flows.propose"), []],
])("%s can %j an open proposal", (_who, session, can) => {
  const { approve, reject, withdraw } = decisionsOf(open, session);
  const found = Object.entries({ approve, reject, withdraw }).flatMap(([name, is]) => (is ? [name] : []));
  expect(found).toEqual(can);
});

test.each([
  [ProposalState.APPROVED, ""],
  [ProposalState.REJECTED, ""],
  [ProposalState.WITHDRAWN, ""],
  [ProposalState.STALE, "another deployment has replaced the revision"],
  [ProposalState.EXPIRED, "has expired without approval"],
])("nobody can do anything with a proposal in the state %j", (state, hint) => {
  const decisions = decisionsOf({ state, user: "ada" }, session("bob", "flows.approve", "flows.propose"));
  expect(decisions).toMatchObject({ approve: false, reject: false, withdraw: false });
  expect(decisions.hint).toContain(hint);
});

test("the filter selects open proposals unless it has another state", () => {
  expect(["", "open", "stale", "any", "nonsense"].map((filter) => stateOf(filter))).toEqual([
    ProposalState.OPEN,
    ProposalState.OPEN,
    ProposalState.STALE,
    ProposalState.UNSPECIFIED,
    ProposalState.OPEN,
  ]);
});

test("changes are named, up to some", () => {
  const proposal = create(ProposalSchema, {
    changes: [
      { kind: ContainerKind.TAB, id: "t", label: "In\u202Evoices" },
      { kind: ContainerKind.SUBFLOW, id: "s" },
      { kind: ContainerKind.GLOBAL },
      { kind: ContainerKind.TAB, id: "u" },
    ],
  });
  expect(describeChanges(proposal)).toBe(String.raw`In\u{202e}voices, subflow s, nodes outside of tabs, u`);
  expect(describeChanges(proposal, 2)).toBe(String.raw`In\u{202e}voices, subflow s, 2 more`);
});

test("a proposal that changes no flows installs modules, which are named as text", () => {
  expect(describeChanges(create(ProposalSchema))).toBe("modules only");
  expect(describeModule({ name: "contrib-one", version: "1.0.0" })).toBe("contrib-one 1.0.0");
  expect(describeModule({ name: "contrib-\u202Eone", version: "" })).toBe(String.raw`contrib-\u{202e}one`);
});
