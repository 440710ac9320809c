import type { RevisionFilter } from "../flow-store.ts";

/** Translates a filter to conditions, each of which begins with AND, and their parameters. */
export function compileFilter({ by, deploymentType, outcome, pinned, fromMs, untilMs }: RevisionFilter): {
  readonly condition: string;
  readonly parameters: Readonly<Record<string, string | number>>;
} {
  const terms = [
    ["deployed_by = :by", "by", by],
    ["deployment_type = :deploymentType", "deploymentType", deploymentType],
    ["outcome = :outcome", "outcome", outcome],
    ["pinned = :pinned", "pinned", pinned === undefined ? undefined : Number(pinned)],
    ["committed_at_ms >= :fromMs", "fromMs", fromMs],
    ["committed_at_ms < :untilMs", "untilMs", untilMs],
  ] as const;
  const given = terms.filter(([, , value]) => value !== undefined);
  return {
    condition: given.map(([term]) => ` AND ${term}`).join(""),
    parameters: Object.fromEntries(given.map(([, name, value]) => [name, value as string | number])),
  };
}
