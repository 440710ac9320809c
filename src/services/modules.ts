import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type {
  ChangeModuleResponseSchema,
  InstallModuleRequest,
  ModuleSchema,
  ModulesService,
} from "../../gen/flowgate/v1/modules_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import { type ModuleSets, moduleInstalled } from "../deployments/module-sets.ts";
import { outcomes } from "../deployments/revision-message.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type FlowNode, type FlowsDocument, containerIdOf, findMissingTypes } from "@flowgate/flows";
import {
  type InstalledModule,
  type InstalledSet,
  isSetName,
  type Modules,
  type InstallRequest,
} from "@flowgate/runtime/modules";
import type { Runtime } from "@flowgate/runtime";
import type { AuditKind } from "../store/audit-store.ts";
import type { Cluster } from "../store/cluster.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { traceKey } from "../telemetry/trace.ts";
import { runtimeTimeoutMs } from "./deployment-request.ts";
import { nameOfSelf } from "./runner.ts";

type ModulesServiceOptions = {
  readonly store: Pick<FlowStore, "active">;
  readonly modules: Pick<Modules, "list" | "get" | "find" | "disabledSets" | "install" | "remove" | "setEnabled">;
  readonly sets: Pick<ModuleSets, "record">;
  readonly audit: Pick<AuditRecorder, "write">;
  readonly runtime: Pick<Runtime, "nodeTypes" | "lastResult" | "restart" | "applyModules">;
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
};

export function modulesService(options: ModulesServiceOptions): ServiceImpl<typeof ModulesService> {
  const { store, modules, sets, audit, runtime, cluster } = options;

  return {
    async listModules() {
      const installed = await modules.list();
      return {
        modules: installed.map(toMessage),
        missingTypes: findMissing(store.active().flows, runtime),
        disabledSets: [...modules.disabledSets()],
        ...replica(),
      };
    },

    async getModule({ name }) {
      return toMessage(await modules.find(decodeName(name)));
    },

    installModule(request, context) {
      return install(readInstallRequest(request), request.deferRestart, context);
    },

    async updateModule({ name: text, version, enabled, force, deferRestart, set: setName }, context) {
      const name = decodeName(text);
      if ((version === undefined) === (enabled === undefined)) {
        throw new FlowgateError("invalid_argument", "version or enabled must be set");
      }
      if (version !== undefined) {
        if (setName !== "") {
          throw new FlowgateError("invalid_argument", "set: has the version of its module: leave it out");
        }
        return install({ name: (await modules.get(name)).name, version }, deferRestart, context);
      }
      const module = await modules.find(name);
      const sets = setName === "" ? module.sets : [findSet(module, setName)];
      const isUnchanged =
        sets.length === 0 ? module.isEnabled === enabled : sets.every(({ isEnabled }) => isEnabled === enabled);
      if (enabled === undefined || isUnchanged) {
        return { module: toMessage(module), ...replica() };
      }
      const id = setName === "" ? name : `${name}/${setName}`;
      if (!enabled && !force) {
        assertUnused({ name: id, types: sets.flatMap(({ types }) => types) }, store.active().flows);
      }
      const changed = await modules.setEnabled(name, enabled, setName === "" ? undefined : setName);
      record(enabled ? "module_enabled" : "module_disabled", { ...changed, name: id }, context);
      return finish(changed, deferRestart, context);
    },

    async deleteModule({ name, force, deferRestart }, context) {
      const module = await modules.get(decodeName(name));
      if (!force) {
        assertUnused(module, store.active().flows);
      }
      await modules.remove(module.name);
      record("module_removed", module, context);
      return finish(module, deferRestart, context, { removed: module.name });
    },
  };

  function toMessage(module: InstalledModule): MessageInitShape<typeof ModuleSchema> {
    return describe(module, usesOf(store.active().flows), runtime.nodeTypes());
  }

  function replica(): { replica?: string } {
    const name = nameOfSelf(cluster);
    return name === undefined ? {} : { replica: name };
  }

  async function install(request: InstallRequest, deferRestart: boolean, context: HandlerContext) {
    const { installed, scriptsNotRun, scriptsNeverRun, previousVersion } = await modules.install(request);
    const [module] = installed;
    if (module === undefined) {
      throw new Error("npm has installed nothing");
    }
    audit.write(moduleInstalled(module, previousVersion, originOf(context)));
    return finish(module, deferRestart, context, {
      scriptsNotRun: [...scriptsNotRun],
      scriptsNeverRun: [...scriptsNeverRun],
    });
  }

  /**
   * Records the modules of the active revision, then applies the change to the flows, which are restarted if a module
   * was removed. Continues if the caller does not wait any more.
   */
  async function finish(
    module: InstalledModule,
    deferRestart: boolean,
    context: HandlerContext,
    {
      removed,
      ...scripts
    }: { readonly removed?: string; readonly scriptsNotRun?: string[]; readonly scriptsNeverRun?: string[] } = {},
  ): Promise<MessageInitShape<typeof ChangeModuleResponseSchema>> {
    await sets.record(removed);
    if (deferRestart) {
      return { module: toMessage(module), ...scripts, ...replica() };
    }
    const trace = context.values.get(traceKey);
    const wait = { withinMs: runtimeTimeoutMs(context.timeoutMs()), signal: context.signal };
    const { outcome, missingTypes, isRestarted } =
      removed === undefined
        ? await runtime.applyModules(store.active(), trace, wait)
        : { ...(await runtime.restart(store.active(), trace, wait)), isRestarted: true };
    return {
      module: toMessage(module),
      ...scripts,
      outcome: outcomes[outcome],
      missingTypes: [...missingTypes],
      restarted: isRestarted && outcome !== "pending" && outcome !== "stopped",
      ...replica(),
    };
  }

  function record(kind: AuditKind, { name, version, integrity }: InstalledModule, context: HandlerContext): void {
    audit.write({ kind, origin: originOf(context), subject: `${name}@${version}`, detail: integrity });
  }
}

function readInstallRequest({ name, version, tarball }: InstallModuleRequest): InstallRequest {
  if (tarball.length > 0) {
    if (name !== "" || version !== "") {
      throw new FlowgateError(
        "invalid_argument",
        "tarball: has a name and version of its own: leave name and version out",
      );
    }
    return { tarball };
  }
  return { name, version: version === "" ? "latest" : version };
}

/** The slash of a scope may be written as %2F, which the routes of REST do not decode. */
function decodeName(text: string): string {
  return text.replace(/%2F/i, "/");
}

function findSet({ name, sets }: InstalledModule, setName: string): InstalledSet {
  const set = sets.find((each) => each.name === setName);
  if (set === undefined) {
    const text = JSON.stringify(setName.slice(0, 100));
    throw new FlowgateError(
      "not_found",
      `set: ${name} has no set of nodes ${text}; the details of the module list them`,
    );
  }
  if (!isSetName(setName)) {
    const text = "can't be enabled and disabled apart from its module, since its name has a slash";
    throw new FlowgateError("invalid_argument", `set: ${text}`);
  }
  return set;
}

function assertUnused({ name, types }: Pick<InstalledModule, "name" | "types">, flows: FlowsDocument): void {
  const uses = usesOf(flows);
  const count = types.reduce((sum, type) => sum + (uses.get(type)?.nodes ?? 0), 0);
  if (count > 0) {
    throw new FlowgateError(
      "module_in_use",
      `the active flows have ${count} ${count === 1 ? "node" : "nodes"} of ${name}, and would not be started without it: remove ` +
        "them from the flows first, or set force",
    );
  }
}

function describe(
  { name, version = "", integrity, isEnabled, types, sets }: InstalledModule,
  uses: ReadonlyMap<string, TypeUse>,
  loadedTypes: ReadonlySet<string> | undefined,
): MessageInitShape<typeof ModuleSchema> {
  const wanted = sets.flatMap((set) => (set.isEnabled ? set.types : []));
  const used = types.map((type) => uses.get(type)).filter((use) => use !== undefined);
  return {
    name,
    version,
    ...(integrity !== undefined && { integrity }),
    types: [...types],
    enabled: isEnabled,
    ...(types.length > 0 &&
      loadedTypes !== undefined && { loaded: isEnabled && wanted.every((type) => loadedTypes.has(type)) }),
    flows: [...new Set(used.flatMap(({ flows }) => [...flows]))],
    nodeCount: used.reduce((sum, { nodes }) => sum + nodes, 0),
    sets: sets.map((set) => ({ name: set.name, types: [...set.types], enabled: set.isEnabled })),
  };
}

/** The missing types of the last start, where the installed types are not known here. */
function findMissing(flows: FlowsDocument, runtime: ModulesServiceOptions["runtime"]): string[] {
  const known = runtime.nodeTypes();
  return known === undefined
    ? [...(runtime.lastResult()?.result.missingTypes ?? [])]
    : findMissingTypes(flows.nodes, known).map(({ type }) => type);
}

/** The nodes of a type, and the ids of the tabs and subflows that contain them. */
type TypeUse = { nodes: number; readonly flows: Set<string> };

const known = new WeakMap<FlowsDocument, ReadonlyMap<string, TypeUse>>();

/** Counts the nodes of flows by their types. */
function usesOf(flows: FlowsDocument): ReadonlyMap<string, TypeUse> {
  return known.getOrInsertComputed(flows, () => countUses(flows.nodes));
}

function countUses(nodes: readonly FlowNode[]): ReadonlyMap<string, TypeUse> {
  const uses = new Map<string, TypeUse>();
  for (const node of nodes) {
    const use = uses.getOrInsertComputed(node.type, () => ({ nodes: 0, flows: new Set() }));
    use.nodes += 1;
    const flow = containerIdOf(node);
    if (flow !== "") {
      use.flows.add(flow);
    }
  }
  return uses;
}
