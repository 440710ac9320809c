import { expect, test } from "vitest";
import { settingLimits } from "../../src/store/setting-store.ts";
import type { StoreLocation } from "./contract.ts";

/** The contract of `SettingStore`. */
export function settingContract(createLocation: () => Promise<StoreLocation>): void {
  test("settings are kept by name, with any text, until they are replaced or removed", async () => {
    await using location = await createLocation();
    const odd = { name: "\0 \ud800 __proto__", json: '"\\u0000"' };
    {
      await using store = await location.open();
      expect(await store.settings.read()).toEqual(new Map());
      expect(await store.settings.write([{ name: "a", json: "1" }, { name: "b", json: "2" }, odd], undefined)).toBe(
        "written",
      );
      await store.settings.write(
        [
          { name: "a", json: "3" },
          { name: "b", json: undefined },
        ],
        undefined,
      );
    }
    await using store = await location.open();
    expect(await store.settings.read()).toEqual(new Map([["a", "3"]]).set(odd.name, odd.json));
  });

  test("there are no more settings than the limits permit", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const many = Array.from({ length: settingLimits.count }, (_, at) => ({ name: `s${at}`, json: "0" }));
    expect(await store.settings.write(many, undefined)).toBe("written");
    expect(await store.settings.write([{ name: "one more", json: "0" }], undefined)).toBe("full");
    expect(
      await store.settings.write(
        [
          { name: "s0", json: undefined },
          { name: "one more", json: "0" },
        ],
        undefined,
      ),
    ).toBe("written");
    const large = JSON.stringify("x".repeat(settingLimits.totalBytes));
    expect(await store.settings.write([{ name: "s1", json: large }], undefined)).toBe("full");
    expect((await store.settings.read()).get("s1")).toBe("0");
  });
}
