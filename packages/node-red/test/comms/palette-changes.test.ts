import { expect, test } from "vitest";
import { describeChanges } from "../../src/comms/palette-changes.ts";
import type { SetInfo } from "../../src/palette/palette.ts";

function set(id: string, changes: Partial<SetInfo> = {}): SetInfo {
  const [module = "", name = ""] = id.split("/");
  return { id, name, types: [name], enabled: true, local: true, user: false, module, version: "1.0.0", ...changes };
}

test("editors are notified of what was added, removed, enabled, disabled and replaced", () => {
  const before = [
    set("kept/a"),
    set("gone/a"),
    set("off/a"),
    set("on/a", { enabled: false }),
    set("up/a"),
    set("up/b"),
  ];
  const after = [
    set("kept/a"),
    set("off/a", { enabled: false }),
    set("on/a"),
    set("up/a", { version: "2.0.0" }),
    set("up/b", { version: "2.0.0" }),
    set("new/a"),
    set("new/off", { enabled: false }),
  ];
  expect(describeChanges(before, after)).toEqual([
    { topic: "notification/node/removed", data: [set("gone/a")] },
    { topic: "notification/node/added", data: [set("new/a")] },
    { topic: "notification/node/disabled", data: set("off/a", { enabled: false }) },
    { topic: "notification/node/enabled", data: set("on/a") },
    { topic: "notification/node/upgraded", data: { module: "up", version: "2.0.0" } },
  ]);
  expect(describeChanges(after, after)).toEqual([]);
});
