import { Code, ConnectError } from "@connectrpc/connect";
import type { Revision } from "@flowgate/client";
import type { Session } from "../client/session.ts";
import { CliFailure } from "../failure.ts";

const pageSize = 1_000;

/**
 * Finds a revision by how people name it: `@` or `active`; `@~2`, two before the active one; its rev, or the beginning of that.
 */
export async function findRevision(session: Session, name: string): Promise<Revision> {
  const [isRelative, steps = "0"] = /^(?:@|active)(?:~(\d{1,6}))?$/.exec(name) ?? [];
  if (isRelative === undefined) {
    return (await findByRev(session, name)) ?? (await findByPrefix(session, name));
  }
  const index = Number(steps);
  let passed = 0;
  for await (const page of pagesOf(session, Math.min(index + 1, pageSize))) {
    const found = page[index - passed];
    if (found !== undefined) {
      return found;
    }
    passed += page.length;
  }
  throw new CliFailure(`${name}: the history has ${passed} revisions only. List them with flowgate history.`);
}

async function findByRev({ revisions }: Session, rev: string): Promise<Revision | undefined> {
  try {
    return await revisions.getRevision({ rev });
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) {
      return undefined;
    }
    throw error;
  }
}

async function findByPrefix(session: Session, prefix: string): Promise<Revision> {
  const found: Revision[] = [];
  for await (const page of pagesOf(session, pageSize)) {
    found.push(...page.filter(({ rev }) => rev.startsWith(prefix)));
  }
  const [first, ...others] = found;
  if (first === undefined) {
    throw new CliFailure(`${prefix}: there is no such revision. List them with flowgate history.`);
  }
  if (others.length > 0) {
    throw new CliFailure(
      `${prefix}: ${found.length} revisions begin with it, such as ${first.rev} and ${others[0]?.rev}. Specify more characters.`,
    );
  }
  return first;
}

async function* pagesOf({ revisions }: Session, pageSize: number): AsyncGenerator<Revision[]> {
  let pageToken = "";
  do {
    const page = await revisions.listRevisions({ pageSize, pageToken });
    yield page.revisions;
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
}
