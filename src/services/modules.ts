import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { ModuleSchema, ModulesService } from "../../gen/flowgate/v1/modules_pb.ts";
import { FlowgateError } from "../errors.ts";
import type { FlowNode } from "../flows/configuration.ts";
import type { FlowsDocument } from "../flows/document.ts";
import { containerIdOf } from "../flows/nodes.ts";
import { findMissingTypes } from "../flows/plan/requirements.ts";
import { quoteInput } from "../flows/violation.ts";
import type { InstalledModule, ModuleCatalog } from "../modules/catalog.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { Cluster } from "../store/cluster.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { nameOfSelf } from "./runner.ts";

type ModulesServiceOptions = {
  readonly store: Pick<FlowStore, "active">;
  readonly catalog: Pick<ModuleCatalog, "list">;
  readonly runtime: Pick<Runtime, "nodeTypes" | "lastResult">;
  /** Undefined: there are no other replicas. */
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
};

/** The modules of this replica. */
export function modulesService({
  store,
  catalog,
  runtime,
  cluster,
}: ModulesServiceOptions): ServiceImpl<typeof ModulesService> {
  const toMessage = (module: InstalledModule): MessageInitShape<typeof ModuleSchema> =>
    describe(module, usesOf(store.active().flows), runtime.nodeTypes());

  return {
    async listModules() {
      const modules = await catalog.list();
      const replica = nameOfSelf(cluster);
      return {
        modules: modules.map(toMessage),
        missingTypes: findMissing(store.active().flows, runtime),
        ...(replica !== undefined && { replica }),
      };
    },

    async getModule({ name: text }) {
      const name = decodeName(text);
      const module = (await catalog.list()).find((each) => each.name === name);
      if (module === undefined) {
        throw moduleNotFound(name);
      }
      return toMessage(module);
    },
  };
}

function moduleNotFound(name: string): FlowgateError {
  return new FlowgateError("not_found", `name: no module ${quoteInput(name)} is installed`);
}

/** The slash of a scope may be written as %2F, which the routes of REST leave as it is. */
function decodeName(text: string): string {
  return text.replace(/%2F/i, "/");
}

function describe(
  { name, version = "", integrity, isEnabled, types }: InstalledModule,
  uses: ReadonlyMap<string, TypeUse>,
  loadedTypes: ReadonlySet<string> | undefined,
): MessageInitShape<typeof ModuleSchema> {
  const used = types.map((type) => uses.get(type)).filter((use) => use !== undefined);
  return {
    name,
    version,
    ...(integrity !== undefined && { integrity }),
    types: [...types],
    enabled: isEnabled,
    ...(types.length > 0 && loadedTypes !== undefined && { loaded: types.every((type) => loadedTypes.has(type)) }),
    flows: [...new Set(used.flatMap(({ flows }) => [...flows]))],
    nodeCount: used.reduce((sum, { nodes }) => sum + nodes, 0),
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

/** Which nodes the flows have, by their types. */
function usesOf(flows: FlowsDocument): ReadonlyMap<string, TypeUse> {
  const uses = known.get(flows) ?? countUses(flows.nodes);
  known.set(flows, uses);
  return uses;
}

function countUses(nodes: readonly FlowNode[]): ReadonlyMap<string, TypeUse> {
  const uses = new Map<string, TypeUse>();
  for (const node of nodes) {
    const use = uses.get(node.type) ?? { nodes: 0, flows: new Set() };
    uses.set(node.type, use);
    use.nodes += 1;
    const flow = containerIdOf(node);
    if (flow !== "") {
      use.flows.add(flow);
    }
  }
  return uses;
}
