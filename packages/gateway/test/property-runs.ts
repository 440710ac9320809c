const { FLOWGATE_PROPERTY_RUNS: share = "1" } = process.env;

/**
 * How often a property is tried. FLOWGATE_PROPERTY_RUNS is a share of that: where the tests also run in full on another version of Node, a tenth
 * is enough to find what depends on the version.
 */
export function propertyRuns(count: number): { readonly numRuns: number } {
  return { numRuns: Math.max(1, Math.round(count * Number(share))) };
}
