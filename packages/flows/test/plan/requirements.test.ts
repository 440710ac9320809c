import { createRequire } from "node:module";
import fc from "fast-check";
import { expect, test } from "vitest";
import { findRequiredModules } from "../../src/plan/requirements.ts";

type Parsed = { readonly module: string; readonly version: string | undefined };

type ExternalModules = {
  init(settings: object): void;
  register(type: string, property: string): void;
  checkFlowDependencies(flows: object[]): Promise<void>;
};

const runtime = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime"));
const file = runtime.resolve("@node-red/registry/lib/externalModules.js");
const externalModules = runtime(file) as ExternalModules;
// Another test loads the file with a hook.
delete runtime.cache[file];
externalModules.init({ userDir: "/nonexistent", externalModules: { modules: { allowInstall: false } } });
externalModules.register("function", "libs");

/** What the flow runtime misses for these flows, where no module is installed. */
async function missing(flows: object[]): Promise<Parsed[]> {
  try {
    await externalModules.checkFlowDependencies(flows);
    return [];
  } catch (errors) {
    return (errors as { readonly module: Parsed }[]).map(({ module: { module, version } }) => ({ module, version }));
  }
}

const part = fc.constantFrom("@", "@", "/", "/", "a", "b-1", ".", "\n", " ", "fs", "node:fs", "1.2");

test("the required modules are those that the flow runtime looks for", async () => {
  let found = 0;
  const spec = fc.array(part, { maxLength: 10 }).map((parts) => parts.join(""));
  await fc.assert(
    fc.asyncProperty(spec, async (module) => {
      const flows = [{ id: "f", type: "function", libs: [{ var: "x", module }] }];
      const expected = await missing(flows);
      found += expected.length;
      const modules = findRequiredModules(flows);
      expect(modules.map(({ name, version }) => ({ module: name, version }))).toEqual(expected);
    }),
    { numRuns: 3000 },
  );
  expect(found).toBeGreaterThan(1000);
});
