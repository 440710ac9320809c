import type { Credentials, Node } from "@flowgate/client";
import type { Session } from "../client/session.ts";
import { usageFailure } from "../failure.ts";
import { checkFlows } from "../flow-files/check-flows.ts";
import type { FileValue } from "../flow-files/flow-files.ts";
import { readBytes, readStdin } from "../flow-files/read-file.ts";
import { readFlowFiles } from "../flow-files/read-files.ts";
import { parseSource } from "../flow-files/source.ts";
import { findRevision } from "../revisions/find-revision.ts";

/** Flows to deploy. */
export type FlowsInput = {
  readonly flows: readonly Node[];
  /** The revision that they were made from, if that is known. */
  readonly rev?: string | undefined;
  readonly credentials?: Credentials | undefined;
};

export type ReadFlags = { readonly rev?: string | undefined; readonly credentials?: string | undefined };

/** Reads files and folders, and checks them as the service does. Throws a CliFailure with all that is invalid. */
export async function readFlows(
  session: Session,
  paths: readonly string[],
  { rev, credentials: path }: ReadFlags,
): Promise<FlowsInput> {
  const files = await readFlowFiles(paths, readStdin);
  if (path !== undefined && files.credentials !== undefined) {
    throw usageFailure(`--credentials: ${files.credentials.source.file} has credentials already.`);
  }
  const credentials = path === undefined ? files.credentials : await readCredentials(path);
  const input = checkFlows({ ...files, credentials });
  return rev === undefined ? input : { ...input, rev: (await findRevision(session, rev)).rev };
}

async function readCredentials(path: string): Promise<FileValue> {
  const source = parseSource(path, await readBytes(path));
  return { value: source.value, source, path: [] };
}
