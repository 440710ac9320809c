import type { RevisionFilter } from "../flow-store.ts";
import { toPortable } from "../portable-text.ts";

/** Translates a filter to conditions, each of which begins with AND, and adds their parameters to `values`. */
export function compileFilter(
  { by, deploymentType, outcome, pinned, fromMs, untilMs }: RevisionFilter,
  values: readonly unknown[],
): { readonly condition: string; readonly values: readonly unknown[] } {
  const terms = [
    ["deployed_by =", by],
    ["deployment_type =", deploymentType],
    ["outcome =", outcome],
    ["pinned =", pinned === undefined ? undefined : Number(pinned)],
    ["committed_at_ms >=", fromMs],
    ["committed_at_ms <", untilMs],
  ].filter(([, value]) => value !== undefined);
  return {
    condition: terms.map(([term], index) => ` AND ${String(term)} $${values.length + index + 1}`).join(""),
    values: [...values, ...terms.map(([, value]) => toPortable(value))],
  };
}
