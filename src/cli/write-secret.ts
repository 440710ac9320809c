import { randomBytes } from "node:crypto";
import { open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { CliFailure } from "@flowgate/cli";
import { parseYaml } from "@flowgate/cli/yaml";
import { isMap, isScalar } from "yaml";

/**
 * Makes `secret` the `credentialSecret` of a configuration file, and adds the previous one to `previousCredentialSecrets`. Everything
 * else in the file stays as it is. The file is replaced at once, with its mode and owner.
 */
export async function writeSecret(path: string, secret: string, previous: string | undefined): Promise<void> {
  const file = await realpath(path);
  const text = await readFile(file, "utf8");
  const changed = replaceSecret(text, secret, previous);
  if (changed === undefined) {
    throw new CliFailure(
      `${path}: the secret can't be replaced in this file: set a new credentialSecret and previousCredentialSecrets yourself`,
    );
  }
  const draft = `${file}.${randomBytes(8).toString("hex")}`;
  try {
    const { mode, uid, gid } = await stat(file);
    await using handle = await open(draft, "wx", 0o600);
    await handle.writeFile(changed);
    if (uid !== process.geteuid?.() || gid !== process.getegid?.()) {
      await handle.chown(uid, gid);
    }
    await handle.chmod(mode & 0o7777);
    await handle.sync();
    await rename(draft, file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliFailure(
      `${path}: can't be replaced (${String(code)}): set a new credentialSecret and previousCredentialSecrets where it comes from`,
      { cause: error },
    );
  } finally {
    await rm(draft, { force: true });
  }
  await using folder = await open(dirname(file), "r");
  await folder.sync();
}

const [secretKey, previousKey] = ["credentialSecret", "previousCredentialSecrets"];

/**
 * Makes `secret` the `credentialSecret` in the text of a configuration file, and adds the one before to `previousCredentialSecrets`, without
 * a change of anything else. Returns undefined for a text in which that is not possible.
 */
export function replaceSecret(text: string, secret: string, previous: string | undefined): string | undefined {
  const { contents, toValue } = parseYaml(text);
  const before = (toValue() ?? {}) as Readonly<Record<string, unknown>>;
  const previousSecrets = [
    ...(previous === undefined ? [] : [previous]),
    ...((before[previousKey] as string[] | undefined) ?? []),
  ];
  const after = {
    ...before,
    [secretKey]: secret,
    ...(previousSecrets.length > 0 && { [previousKey]: previousSecrets }),
  };
  const map = isMap(contents) ? contents : undefined;
  const pairs = map?.items ?? [];
  const find = (key: string) => pairs.find((pair) => isScalar(pair.key) && pair.key.value === key);
  /** Replaced parts of the text, the last one first. */
  const edits: { at: number; end: number; text: string }[] = [];
  const added: string[] = [];
  for (const [key, value] of [
    [secretKey, secret],
    [previousKey, previousSecrets],
  ] as const) {
    const range = find(key)?.value?.range;
    if (range !== undefined && range !== null) {
      // The range of a block includes the line break after it.
      const end = range[0] + text.slice(range[0], range[1]).trimEnd().length;
      edits.push({ at: range[0], end, text: format(value) });
    } else if (value.length > 0) {
      added.push(map?.flow === true ? `"${key}": ${format(value)}, ` : `${key}: ${format(value)}\n`);
    }
  }
  const [first] = pairs;
  const at = first?.key.range[0] ?? text.length;
  // Entries of a block begin in the same column.
  const indent = map?.flow === true ? "" : text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  edits.push({ at, end: at, text: added.map((entry) => entry + indent).join("") });
  let changed = text;
  for (const edit of edits.toSorted((one, other) => other.at - one.at)) {
    changed = changed.slice(0, edit.at) + edit.text + changed.slice(edit.end);
  }
  const parsed = parseYaml(changed);
  return parsed.problems.length === 0 && isDeepStrictEqual(parsed.toValue(), after) ? changed : undefined;
}

/** As JSON, which is YAML in blocks and in braces. */
function format(value: string | readonly string[]): string {
  return typeof value === "string"
    ? JSON.stringify(value)
    : `[${value.map((each) => JSON.stringify(each)).join(", ")}]`;
}
