import type { Node } from "../../gen/flowgate/v1/flows_pb.ts";
import { globalFlowId } from "./flow-parts.ts";
import { type Violation, quoteInput } from "./violation.ts";

/**
 * Finds the first name in a node that the flow runtime can't use: it keeps nodes and types in plain objects, which have members
 * such as `constructor`, and would fail, crash, ignore the node or change all objects of its process.
 */
export function findReservedName({ id, type, properties = {} }: Node): Violation | undefined {
  const { z, links, env } = properties;
  if (isMember(id)) {
    return reserved(["id"], id);
  }
  if (type === "tab" && id === globalFlowId) {
    return reserved(["id"], id);
  }
  if (isMember(type) || isMember(type.replace(/^subflow:/, ""))) {
    return reserved(["type"], type);
  }
  if (typeof z === "string" && isMember(z)) {
    return reserved(["z"], z);
  }
  if (type === "link in" && Array.isArray(links)) {
    const index = links.findIndex((link) => typeof link === "string" && isMember(link));
    if (index !== -1) {
      return reserved(["links", index], links[index] as string);
    }
  }
  return Array.isArray(env) ? findReservedVariable(env) : undefined;
}

function findReservedVariable(env: readonly unknown[]): Violation | undefined {
  for (const [index, variable] of env.entries()) {
    const { name } = Object(variable) as { readonly name?: unknown };
    if (name === "__proto__" || name === "hasOwnProperty") {
      return reserved(["env", index, "name"], name);
    }
  }
  return undefined;
}

function isMember(name: string): boolean {
  return name in Object.prototype;
}

function reserved(path: Violation["path"], name: string): Violation {
  return { path, message: `must not be ${quoteInput(name)}, which the flow runtime can't use as a name` };
}
