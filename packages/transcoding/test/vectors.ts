import { readFileSync } from "node:fs";

/** A case of vectors.json; its first entry explains the groups and what the fields mean. */
export type Vector = { group: string; id: string; profile: string; [field: string]: unknown };

const all = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8")) as Vector[];

/** The cases of a group that must hold: all but those of strict http.proto grammar, unless these are asked for. */
export function vectors<T>(
  group: string,
  profiles = ["core", "extension", "recommended"],
): [id: string, vector: Vector & T][] {
  return all
    .filter((vector) => vector.group === group && profiles.includes(vector.profile))
    .map((vector) => [vector.id, vector as Vector & T]);
}
