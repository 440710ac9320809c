import { expect, test } from "vitest";
import { allows, builtInRoles } from "../../../../src/auth/permissions.ts";
import { permissions } from "../../../../src/services/api.ts";
import { explainPermission, permissionTexts, roleTexts } from "../../src/texts/permissions.ts";

test("explains exactly the permissions that the service knows", () => {
  expect(Object.keys(permissionTexts).toSorted()).toEqual([...permissions].toSorted());
});

test("describes the roles that the service has, with all of their permissions", () => {
  expect(Object.keys(roleTexts)).toEqual([...builtInRoles.keys()]);
  for (const [role, granted] of builtInRoles) {
    const named = new Set(roleTexts[role]?.match(/\b[a-z]+(?:\.[a-z_]+)?\b/g));
    expect(granted.filter((name) => name !== "*" && !named.has(name))).toEqual([]);
  }
});

test("says which permissions read does not include", () => {
  const readable = [...permissions].filter((name) => name.endsWith(".read"));
  const excluded = readable.filter((name) => explainPermission("read")?.includes(name));
  expect(excluded).toEqual(readable.filter((name) => !allows(["read"], name)));
});

test.each([
  ["flows.write@tab:Night%20shift", "Like flows.write, but only on the tab Night shift."],
  ["flows.write@tab:100%", "Like flows.write, but only on the tab 100%."],
  ["constructor", undefined],
  ["nothing.known", undefined],
])("explains %s", (name, expected) => {
  expect(explainPermission(name)).toBe(expected);
});
