import { ListModulesResponseSchema, type Module } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import type { Cell } from "../output/output.ts";
import { printable } from "../printable.ts";

export async function listModules({ session, output }: ClientContext): Promise<void> {
  const response = await session.modules.listModules({});
  const { modules, missingTypes } = response;
  output.message(ListModulesResponseSchema, response, () =>
    modules.length === 0
      ? "There are no modules. Install one with flowgate module install."
      : output.table(["NAME", "VERSION", "STATE", "USED BY", "NODE TYPES"], modules.map(toRow)),
  );
  if (missingTypes.length > 0) {
    process.stderr.write(
      `flowgate: The active flows need node types that are not installed: ${missingTypes.map(printable).join(", ")}.\n`,
    );
  }
}

function toRow({ name, version, enabled, loaded, nodeCount, types }: Module): Cell[] {
  const nodes = nodeCount === 0 ? "" : `${nodeCount} ${nodeCount === 1 ? "node" : "nodes"}`;
  return [name, version, stateOf(enabled, loaded), nodes, types.join(", ")];
}

function stateOf(enabled: boolean, loaded: boolean | undefined): Cell {
  if (!enabled) {
    return "disabled";
  }
  if (loaded === undefined) {
    return "";
  }
  return loaded ? "loaded" : { style: "red", text: "not loaded" };
}
