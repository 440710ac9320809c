import { pino } from "pino";
import { expect, test } from "vitest";
import { type ModuleContent, ModuleSets } from "../../src/deployments/module-sets.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type InstalledModule, type Modules, compareModules } from "@flowgate/runtime/modules";
import { openStore } from "../../src/store/open-store.ts";
import type { RevisionModule } from "../../src/store/module-store.ts";
import type { Store } from "../../src/store/store.ts";
import { systemOrigin } from "../../src/store/audit-store.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { draft } from "../store/builders.ts";
import { createSqlitePlace } from "../store/stores.ts";

const integrity = `sha512-${"a".repeat(86)}==`;

function module(name: string, version: string, types: readonly string[] = [name]): InstalledModule {
  return { name, version, integrity, upload: undefined, isEnabled: true, types, sets: [] };
}

function recorded({ name, version = "", types }: InstalledModule): RevisionModule {
  return { name, version, integrity, types };
}

type Sets = AsyncDisposable & {
  readonly store: Store;
  readonly sets: ModuleSets;
  readonly events: string[];
  commit(content: Omit<ModuleContent, "flows">, types?: readonly string[]): Promise<string>;
};

function createSets(
  store: Store,
  installed: readonly InstalledModule[],
  replace: Modules["replace"],
  events: string[],
): ModuleSets {
  return new ModuleSets({
    modules: {
      list: async () => installed,
      compare: async (wanted) => compareModules(installed, wanted),
      replace,
      readUpload: async ({ upload }) => (upload === undefined ? undefined : Buffer.from(upload)),
    },
    flows: store.flows,
    store: store.modules,
    audit: store.audit,
    runtime: { reloadModules: () => void events.push("reload") },
    onIneffective: () => void events.push("ineffective"),
    log: pino({ level: "silent" }),
  });
}

/** Sets of a new store; `replace` installs modules. */
async function open(installed: readonly InstalledModule[], replace: Modules["replace"]): Promise<Sets> {
  await using stack = new AsyncDisposableStack();
  const store = stack.use(await openStore(stack.use(await createSqlitePlace())));
  const events: string[] = [];
  const sets = createSets(store, installed, replace, events);
  const resources = stack.move();
  return {
    store,
    sets,
    events,
    async commit(content, types = []) {
      const flows = documentOf(types.map((type, index) => ({ id: `n${index}`, type })));
      const installer = { origin: systemOrigin, assertMayInstall: () => void events.push("may install") };
      const { rev } = await sets.commit({ ...content, flows }, installer, (modules) =>
        store.flows.commit(draft(store.flows.active().rev, { flows, modules })),
      );
      return rev;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

const fail: Modules["replace"] = async () => {
  throw new FlowgateError("registry_unavailable", "one: the registry can't be reached");
};

const wanted = (version: string) => ({ modules: [{ name: "one", version, integrity: undefined }] });

test("records what is installed and needed, by types and by names", async () => {
  const modules = [module("one", "1.0.0"), module("two", "1.0.0"), module("unused", "1.0.0")];
  await using opened = await open(modules, fail);
  const rev = await opened.commit({}, ["one", "two", "inject"]);
  expect(await opened.store.modules.find(rev)).toEqual(modules.slice(0, 2).map(recorded));
  expect(opened.events).toEqual([]);
});

test("keeps what flows need and only another replica has", async () => {
  await using opened = await open([], fail);
  const { store } = opened;
  const elsewhere = [recorded(module("one", "1.0.0")), recorded(module("two", "1.0.0"))];
  await store.modules.record(store.flows.active().rev, elsewhere, undefined);
  const rev = await opened.commit({}, ["one"]);
  expect(await store.modules.find(rev)).toEqual(elsewhere.slice(0, 1));
});

test("commits nothing if the modules can't be installed", async () => {
  await using opened = await open([module("one", "1.0.0")], fail);
  const { rev } = opened.store.flows.active();
  await expect(opened.commit(wanted("2.0.0"))).rejects.toThrow("one: the registry can't be reached");
  expect(opened.store.flows.active().rev).toBe(rev);
  expect(opened.events).toEqual(["may install"]);
});

test("commits what is installed already without a permission", async () => {
  await using opened = await open([module("one", "1.0.0")], fail);
  await opened.commit(wanted("^1.0.0"), ["one"]);
  expect(opened.events).toEqual([]);
});

test("records and audits what was installed, and has it loaded", async () => {
  const next = [module("one", "2.0.0")];
  await using opened = await open([module("one", "1.0.0")], (_wanted, { commit }) => commit(next));
  const rev = await opened.commit(wanted("2.0.0"), ["one"]);
  expect(await opened.store.modules.find(rev)).toEqual(next.map(recorded));
  expect(opened.events).toEqual(["may install", "reload"]);
  const { entries } = await opened.store.audit.list({ limit: 1, order: "newest" });
  expect(entries).toMatchObject([{ kind: "module_installed" }]);
});

test("a revision whose modules could not take effect is committed, and they are installed again", async () => {
  const next = [module("one", "2.0.0")];
  await using opened = await open([], async (_wanted, { commit }) => {
    await commit(next);
    throw new Error("the disk has failed");
  });
  const rev = await opened.commit(wanted("2.0.0"), ["one"]);
  expect(opened.store.flows.active().rev).toBe(rev);
  expect(opened.events).toEqual(["may install", "ineffective", "reload"]);
});

test("an automatic undo goes on without modules that can't be brought back", async () => {
  await using opened = await open([module("one", "2.0.0")], fail);
  const { store, sets } = opened;
  const modules = [recorded(module("one", "1.0.0"))];
  const { rev: restoredRev, flows } = await store.flows.commit(draft(store.flows.active().rev, { modules }));
  const problems: (string | undefined)[] = [];
  await sets.restoreIfPossible({ flows, restoredRev }, systemOrigin, (needed, problem) => {
    problems.push(problem);
    return store.flows.commit(draft(restoredRev, { modules: needed }));
  });
  expect(problems).toEqual(["one: the registry can't be reached"]);
});

test("stores uploaded packages that a revision needs", async () => {
  await using opened = await open([{ ...module("one", "1.0.0"), upload: "one-1.0.0.tgz" }], fail);
  await opened.commit({});
  expect(await opened.store.modules.listTarballs([integrity])).toEqual([]);
  await opened.commit({}, ["one"]);
  expect(Buffer.from((await opened.store.modules.findTarball(integrity)) ?? []).toString()).toBe("one-1.0.0.tgz");
});

test("a module that is removed is not recorded any more", async () => {
  await using opened = await open([], fail);
  const { store, sets } = opened;
  const rev = await opened.commit({}, ["one"]);
  await store.modules.record(rev, [recorded(module("one", "1.0.0"))], await store.modules.find(rev));
  await sets.record();
  expect(await store.modules.find(rev)).toHaveLength(1);
  await sets.record("one");
  expect(await store.modules.find(rev)).toEqual([]);
});

test("records the modules of replicas that install others at the same time", async () => {
  const [one, two] = [module("one", "1.0.0"), module("two", "1.0.0")];
  await using opened = await open([], fail);
  const { store } = opened;
  const rev = await opened.commit({}, ["one", "two"]);
  await Promise.all([one, two].map((each) => createSets(store, [each], fail, []).record()));
  expect((await store.modules.find(rev))?.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual(
    [one, two].map(recorded),
  );
});
