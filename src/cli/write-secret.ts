import { randomBytes } from "node:crypto";
import { open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { CliFailure } from "@flowgate/cli";
import { replaceSecret } from "./replace-secret.ts";

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
