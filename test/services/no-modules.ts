import { type Modules, compareModules } from "@flowgate/runtime/modules";
import type { ModuleStore } from "../../src/store/module-store.ts";

const modules: Pick<Modules, "list" | "compare" | "replace" | "readUpload"> = {
  list: async () => [],
  compare: async (wanted) => compareModules([], wanted),
  replace: async (_wanted, { commit }) => commit([]),
  readUpload: async () => undefined,
};

const moduleStore: ModuleStore = {
  find: async () => undefined,
  record: async () => true,
  async putTarball() {},
  findTarball: async () => undefined,
  listTarballs: async () => [],
  onChange: () => ({ [Symbol.dispose]() {} }),
};

/** A service without modules. */
export const noModules = { modules, moduleStore };
