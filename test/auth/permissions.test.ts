import { permits } from "@flowgate/client";
import { expect, test } from "vitest";
import { allows, allowsOnTabs, builtInRoles, covers, narrow, parseScope } from "../../src/auth/permissions.ts";
import { known } from "./users.ts";

test.each([
  [["*"], "flows.write", true],
  [["read"], "flows.read", true],
  [["read"], "settings.read", true],
  [["read"], "flows.write", false],
  [["read"], "debug.read", false],
  [["read"], "logs.read", false],
  [["read"], "context.read", false],
  [["*"], "debug.read", true],
  [["flows.write"], "flows.write", true],
  [["flows.write"], "flows.read", false],
  [["flows.read", "flows.write"], "flows.write", true],
  [["flows"], "flows.read", false],
  [[], "flows.read", false],
  [["flows.write@tab:a"], "flows.write", false],
  [["flows.write"], "flows.propose@tab:a", false],
  [["flows.approve"], "flows.approve@tab:a", true],
  [["*"], "flows.deploy_unapproved", false],
  [["flows.deploy_unapproved"], "flows.deploy_unapproved", true],
  [["flows.write"], "flows.write@tab:a", true],
  [["flows.write@tab:a"], "flows.write@tab:b", false],
  [["read"], "flows.write@tab:a.read", false],
])("whether %j allows %s is %s", (permissions, permission, allowed) => {
  expect(allows(permissions, permission)).toBe(allowed);
});

test.each([
  [[]],
  [["*"]],
  [["read"]],
  [["read", "flows.write"]],
  [["flows.write@tab:a", "logs.read"]],
  [["*", "flows.deploy_unapproved"]],
])("clients know what %j permit, at least on some tabs", (permissions) => {
  const names = [...known, "flows.deploy_unapproved"];
  expect(names.filter((name) => permits(permissions, name))).toEqual(
    names.filter((name) => allows(permissions, name) || allowsOnTabs(permissions, name)),
  );
});

test.each([
  [["*"], ["*"], true],
  [["*"], ["read", "flows.write"], true],
  [["read"], ["*"], false],
  [["read"], ["read"], true],
  [["read"], ["settings.read"], true],
  [["flows.read"], ["read"], false],
  [["flows.read", "settings.read"], ["read"], true],
  [["flows.write"], ["flows.write"], true],
  [["flows.write"], ["read"], false],
  [["flows.write"], ["flows.write@tab:a"], true],
  [["flows.write@tab:a"], ["flows.write@tab:a"], true],
  [["flows.write@tab:a"], ["flows.write@tab:b"], false],
  [["flows.write@tab:a"], ["flows.write"], false],
  [["read"], ["flows.write@tab:a.read"], false],
])("whether %j includes the scope %j is %s", (permissions, requested, covered) => {
  expect(covers(permissions, requested, known)).toBe(covered);
});

test.each([
  [["*"], ["*"], ["*"]],
  [["*"], ["read"], ["read"]],
  [["read"], ["*"], ["read"]],
  [["read"], ["flows.read", "flows.write"], ["flows.read"]],
  [["read"], ["logs.read"], []],
  [["flows.read"], ["read"], ["flows.read"]],
  [["flows.write"], ["read"], []],
  [["flows.write", "read"], ["*"], ["flows.write", "read"]],
  [["*", "read"], ["read"], ["read"]],
  [["flows.write@tab:a", "read"], ["flows.write"], ["flows.write@tab:a"]],
  [["flows.write"], ["flows.write@tab:a", "read"], ["flows.write@tab:a"]],
  [["flows.write@tab:a"], ["flows.write@tab:b"], []],
])("%j restricted to the scope %j is %j", (permissions, scope, both) => {
  expect(narrow(permissions, scope)).toEqual(both);
});

test.each([
  ["*", ["*"]],
  ["read", ["read"]],
  ["flows.read flows.write", ["flows.read", "flows.write"]],
  ["read read", ["read"]],
  ["viewer", ["read"]],
  ["release-manager flows.write viewer", ["flows.write", "settings.read", "read"]],
  ["Viewer", undefined],
  ["flows.write@tab:a read", ["flows.write@tab:a", "read"]],
  ["flows.write@tab:Order%20entry", ["flows.write@tab:Order%20entry"]],
  ["flows.write@tab:", undefined],
  ["flows.write@tab:%", undefined],
  ["flows.write@tab:\u001b[31m", undefined],
  [`flows.write@tab:${"a".repeat(4080)}`, [`flows.write@tab:${"a".repeat(4080)}`]],
  [`flows.write@tab:${"a".repeat(4081)}`, undefined],
  ["flows.read@tab:a", undefined],
  ["settings.read@tab:a", undefined],
  ["", undefined],
  [" read", undefined],
  ["read  flows.write", undefined],
  ["read\tflows.write", undefined],
  ["read,flows.write", undefined],
  ["flows", undefined],
  ["Read", undefined],
  ["constructor", undefined],
])("the scope %j is parsed as %j", (scope, names) => {
  const roles = new Map([...builtInRoles, ["release-manager", ["flows.write", "settings.read"]]]);
  expect(parseScope(scope, { permissions: known, roles })).toEqual(names);
});
