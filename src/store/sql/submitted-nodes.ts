import type { DraftWrites } from "../node-credentials.ts";

/** More ids are recorded as all. */
const maxSubmitted = 1_000;

/** The column `submitted` of a revision: a JSON array of node ids, or `"all"`. */
export function formatSubmitted(submitted: DraftWrites["submitted"] = new Set()): string {
  return JSON.stringify(submitted === "all" || submitted.size > maxSubmitted ? "all" : [...submitted]);
}

/** Returns whether an id is one of them. */
export function parseSubmitted(json: string): (id: string) => boolean {
  const submitted = JSON.parse(json) as "all" | string[];
  const ids = new Set(submitted);
  return (id) => submitted === "all" || ids.has(id);
}
