import type { CredentialKey, CredentialKeys } from "../credential-keys.ts";
import { openText, sealText } from "../credentials.ts";
import { type SettingChange, settingLimits, type SettingStore } from "../setting-store.ts";
import { holdsLease } from "./node-credentials.ts";
import { insert, type Query } from "./query.ts";

/** The table `node_setting`. */
type SettingRow = {
  seq: number;
  /** As JSON, which can represent all names in all databases. */
  name: string;
  /** Encrypted. */
  value: Uint8Array;
};

/** Returns the encryption context of a setting. `name` is the column. */
export function settingSealName(name: string): string {
  return `setting ${name}`;
}

/** The settings as they were read last. */
export class KnownSettings {
  settings: ReadonlyMap<string, string> = new Map();
  readonly #query: Query;
  readonly #keys: CredentialKeys;

  constructor(query: Query, keys: CredentialKeys) {
    this.#query = query;
    this.#keys = keys;
  }

  async read(): Promise<ReadonlyMap<string, string>> {
    this.settings = await readSettings(this.#query, this.#keys);
    return this.settings;
  }
}

async function readSettings(query: Query, keys: CredentialKeys): Promise<ReadonlyMap<string, string>> {
  const rows = await query<SettingRow>("SELECT name, value FROM flowgate.node_setting ORDER BY seq");
  return new Map(
    rows.map(({ name, value }) => [JSON.parse(name) as string, openText(keys, settingSealName(name), value)]),
  );
}

export type SettingsCall = {
  /** Null: it is removed. */
  readonly changes: readonly { readonly name: string; readonly value: Uint8Array | null }[];
  readonly token: number | undefined;
};

export function toSettingsCall(
  changes: readonly SettingChange[],
  token: number | undefined,
  key: CredentialKey,
): SettingsCall {
  return {
    changes: changes.map(({ name: text, json }) => {
      const name = JSON.stringify(text);
      return { name, value: json === undefined ? null : sealText(key, settingSealName(name), json) };
    }),
    token,
  };
}

export async function writeSettings(query: Query, { changes, token }: SettingsCall): ReturnType<SettingStore["write"]> {
  if (token !== undefined && !(await holdsLease(query, token))) {
    return "fenced";
  }
  const rows = await query<Pick<SettingRow, "seq" | "name"> & { bytes: number }>(
    "SELECT seq, name, length(value) AS bytes FROM flowgate.node_setting ORDER BY seq",
  );
  const sizes = new Map(rows.map(({ name, bytes }) => [name, bytes]));
  changes.forEach(({ name, value }) => (value === null ? sizes.delete(name) : sizes.set(name, value.length)));
  const totalBytes = sizes.values().reduce((sum, bytes) => sum + bytes, 0);
  if (sizes.size > settingLimits.count || totalBytes > settingLimits.totalBytes) {
    return "full";
  }
  let seq = rows.at(-1)?.seq ?? 0;
  for (const { name, value } of changes) {
    await query("DELETE FROM flowgate.node_setting WHERE name = $1", [name]);
    if (value !== null) {
      seq += 1;
      await insert(query, "node_setting", { seq, name, value });
    }
  }
  return "written";
}
