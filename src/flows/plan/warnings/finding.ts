import type { FlowNode } from "../../configuration.ts";

/** A node, and what is wrong with it. */
export type Finding = { readonly node: FlowNode; readonly message: string };
