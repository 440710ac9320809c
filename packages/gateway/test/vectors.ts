import { readFileSync } from "node:fs";

/** A case of vectors.json, whose first entry documents the groups and fields. */
export type Vector = { group: string; id: string; profile: string; [field: string]: unknown };

const all = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8")) as Vector[];

/** The cases of a group with one of the profiles; by default all but "strict". */
export function vectors<T>(
  group: string,
  profiles = ["core", "extension", "recommended"],
): [id: string, vector: Vector & T][] {
  return all
    .filter((vector) => vector.group === group && profiles.includes(vector.profile))
    .map((vector) => [vector.id, vector as Vector & T]);
}
