import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Options } from "../options/parse.ts";
import { type Rotation, type RotationProgress, rotateStore } from "../store/open-store.ts";
import { CliFailure, UsageFailure } from "@flowgate/cli";
import type { Flags } from "./option-flags.ts";
import type { Program } from "./program.ts";
import { configPathOf, readOptions } from "./read-options.ts";
import { runInterruptibly } from "./until-signal.ts";

/** How the new secret is put into the configuration file. */
export type RotationFlags = { readonly generate?: true; readonly newSecretFile?: string; readonly wait?: number };

/** Encrypts everything in the store with another secret or key, and prints the steps. A signal ends it between two of them. */
export async function rotate(
  flags: Flags,
  { generate, newSecretFile, wait = 60 }: RotationFlags,
  { exit }: Program,
): Promise<void> {
  if (generate === true && newSecretFile !== undefined) {
    throw new UsageFailure(
      "--generate and --new-secret-file exclude each other: the new secret is either generated or in the file.",
    );
  }
  const path = configPathOf(flags, process.env);
  const isWritten = generate === true || newSecretFile !== undefined;
  if (isWritten && path === undefined) {
    throw new UsageFailure(
      "--generate and --new-secret-file write the configuration file: name it with --config or FLOWGATE_CONFIG.",
    );
  }
  const options = await readOptions(flags, process.env);
  let { credentialSecret } = options;
  const replaceSecret = async (): Promise<string> => {
    const secret =
      newSecretFile === undefined ? randomBytes(32).toString("base64") : await readNewSecret(newSecretFile, options);
    const { writeSecret } = await import("./write-secret.ts");
    await writeSecret(path ?? "", secret, credentialSecret);
    print(`Put the new secret into ${path ?? ""}, as credentialSecret.`);
    credentialSecret = secret;
    return secret;
  };
  const rotation = await runInterruptibly(
    exit,
    { text: "Preparing", failed: "The rotation failed", interrupted: "it was interrupted: run it again to continue" },
    (signal, update) =>
      rotateStore({
        ...options,
        waitMs: wait * 1000,
        replaceSecret: isWritten ? replaceSecret : undefined,
        onProgress: reportTo(update),
        signal,
      }),
  );
  print(describe(rotation, { ...options, credentialSecret }));
  if (rotation.unreadable.length > 0) {
    throw new CliFailure(describeUnreadable(rotation.unreadable));
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The secret in a file, without the line break at its end. */
async function readNewSecret(file: string, { previousCredentialSecrets, credentialSecret }: Options): Promise<string> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CliFailure(`--new-secret-file: ${file} can't be read (${String(error.code)})`);
  });
  const secret = text.replace(/\r?\n$/, "");
  if (secret === "") {
    throw new CliFailure(`--new-secret-file: ${file} is empty: it must contain a long random secret`);
  }
  if ([credentialSecret, ...previousCredentialSecrets].includes(secret)) {
    throw new CliFailure(`--new-secret-file: ${file} contains a secret that is or was credentialSecret: use a new one`);
  }
  return secret;
}

/** Prints when a phase begins, and updates the text at a terminal. */
function reportTo(update: (text: string) => void): (progress: RotationProgress) => void {
  let services = "";
  return (progress) => {
    switch (progress.phase) {
      case "begun":
      case "complete":
        break;
      case "waiting":
        if (services !== progress.services.join(", ")) {
          services = progress.services.join(", ");
          print(`Waiting until these know the new secret: ${services}`);
        }
        break;
      case "switched":
        print("Everything is written with the new secret from now on. Encrypting what was written before.");
        break;
      case "encrypting":
      case "checking": {
        const { phase, done, total } = progress;
        const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
        update(`${phase === "encrypting" ? "Encrypting" : "Checking"}: ${percent}% of ${total} values`);
      }
    }
  };
}

function describe(
  { counts, encrypted, keptKey }: Rotation & { readonly keptKey: string | undefined },
  { credentialSecret, dataDir }: Pick<Options, "credentialSecret" | "dataDir">,
): string {
  const list = Array.from(counts, ([plural, count]) => `${plural}: ${count}`).join(", ");
  if (credentialSecret === undefined) {
    const kept =
      keptKey === undefined
        ? ""
        : ` The previous key is in ${dataDir}/${keptKey}: delete it when no backup from before needs it. Back up the new one.`;
    return `Everything is encrypted with ${dataDir}/credential.key (${list}).${kept}`;
  }
  return encrypted === 0
    ? `Everything is encrypted with credentialSecret already (${list}). To replace it, use --generate or --new-secret-file, or set a new ` +
        "one in the configuration of all services, put the present one into previousCredentialSecrets, and run this again."
    : `Everything is encrypted with credentialSecret (${list}). Remove previousCredentialSecrets from the configuration of all services, ` +
        "and keep the previous secret or credential.key as long as a backup from before needs it.";
}

function describeUnreadable(unreadable: readonly string[]): string {
  const shown = unreadable.slice(0, 5).join(", ");
  const more = unreadable.length > 5 ? ` and ${unreadable.length - 5} more` : "";
  return (
    `None of the known secrets can decrypt the credentials of ${shown}${more}, as before: if you have the secret that they were encrypted ` +
    "with, add it to previousCredentialSecrets, and run this again"
  );
}
