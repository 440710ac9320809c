import { create } from "@bufbuild/protobuf";
import { VerifyAuditResponseSchema } from "@flowgate/client";
import { formatHead, parseHead } from "../store/audit-store.ts";
import type { Options } from "../options/parse.ts";
import { backupStore, type CopyProgress, type CopyResult, restoreStore, verifyAudit } from "../store/open-store.ts";
import { type Output, printVerification } from "@flowgate/cli/output";
import { CliFailure, UsageFailure } from "@flowgate/cli";
import type { Program } from "./program.ts";
import { readOptions } from "./read-options.ts";
import type { Flags } from "./option-flags.ts";
import { runInterruptibly } from "./until-signal.ts";

/** Backs up the store to a file, or restores it from one, and prints the remaining steps. */
export async function copyStore(kind: "backup" | "restore", file: string, options: Options): Promise<void> {
  try {
    process.stdout.write(kind === "backup" ? await backUp(file, options) : await restore(file, options));
  } catch (error) {
    throw new CliFailure(`The ${kind} failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function backUp(file: string, options: Options): Promise<string> {
  await backupStore(options, file);
  const { credentialSecret, dataDir } = options;
  const key = credentialSecret === undefined ? `${dataDir}/credential.key` : "credentialSecret";
  return `Backed up to ${file}. Its credentials are encrypted: back up ${key} too, in another place.\n`;
}

async function restore(file: string, options: Options): Promise<string> {
  const replaced = await restoreStore(file, options);
  const previous = replaced === undefined ? "" : ` The previous store is in ${replaced}.`;
  return `Restored ${file}; users have to log in again.${previous}\n`;
}

/** Copies a store to another one, and prints the remaining steps. A signal ends it, and nothing is copied. */
export async function migrate(flags: Flags, { migrateStore, exit }: Program): Promise<void> {
  if (!flags.has("from") && !flags.has("to")) {
    throw new UsageFailure("migrate requires --from, --to or both: the URLs of the stores.");
  }
  const { store: from } = await readOptions(flags, process.env, { storeFlag: "from" });
  const {
    store: to,
    dataDir,
    credentialSecret,
    previousCredentialSecrets,
  } = await readOptions(flags, process.env, { storeFlag: "to" });
  if (from === to) {
    throw new UsageFailure("--from and --to are the same store. The one that is left out is the configured store.");
  }
  const result = await runInterruptibly(
    exit,
    { text: "Copying", failed: "The migration failed", interrupted: "it was interrupted, and nothing was copied" },
    (signal, update) =>
      migrateStore({
        from,
        to,
        dataDir,
        credentialSecret,
        previousCredentialSecrets,
        onProgress: (copied) => update(formatProgress(copied)),
        signal,
      }),
  );
  const key = credentialSecret === undefined ? `${dataDir}/credential.key` : "credentialSecret";
  process.stdout.write(describe(result, key));
}

function formatProgress({ phase, done, total }: CopyProgress): string {
  const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
  return `${phase === "copying" ? "Copying" : "Checking"}: ${percent}% of ${total} rows`;
}

function describe({ counts, auditProblem }: CopyResult, key: string): string {
  const [revisions, tokens, entries] = (["revision", "token", "audit"] as const).map((table) => counts.get(table) ?? 0);
  const warning =
    auditProblem === undefined
      ? ""
      : `The audit log was copied as it is, but had been changed before: ${auditProblem}.\n`;
  return (
    `Copied and checked (revisions: ${revisions}, tokens: ${tokens}, audit entries: ${entries}). ` +
    `The credentials are encrypted with ${key}.\n${warning}` +
    "Start the service with the new store. The previous one was not changed: keep it until the service runs, and remove it then.\n"
  );
}

/** Checks the audit log in the store, and prints the result as if the server had checked it. `head` was printed earlier. */
export async function verifyStore(output: Output, head: string | undefined, flags: Flags): Promise<void> {
  const options = await readOptions(flags, process.env);
  const expected = head === undefined ? undefined : parseHead(head);
  if (head !== undefined && expected === undefined) {
    throw new UsageFailure(
      "audit verify takes a head as it printed it earlier: a number, a colon and 64 hexadecimal digits.",
    );
  }
  const result = await verifyAudit(options, expected).catch((error: unknown) => {
    throw new CliFailure(`The audit log can't be read: ${error instanceof Error ? error.message : String(error)}`);
  });
  const { entries, revisions, problem } = result;
  printVerification(
    output,
    create(VerifyAuditResponseSchema, {
      intact: problem === undefined,
      problem: problem ?? "",
      entries,
      revisions,
      head: result.head.seq === 0 ? "" : formatHead(result.head),
    }),
  );
}
