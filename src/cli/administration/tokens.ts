import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { CreateTokenResponseSchema, ListTokensResponseSchema, type Token } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import type { Session } from "../client/session.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { collectPages, noteMore } from "../output/list.ts";
import { printable } from "../output/printable.ts";
import { formatTime } from "../output/values.ts";

export type CreateFlags = { readonly scope?: string; readonly expiresIn?: number };
export type ListFlags = { readonly user?: string; readonly limit: number };
export type RevokeFlags = { readonly user?: string; readonly all?: boolean; readonly yes?: boolean };

export async function createToken(
  { session, output }: ClientContext,
  name: string,
  { scope, expiresIn }: CreateFlags,
): Promise<void> {
  const response = await session.tokens.createToken({
    name,
    ...(scope !== undefined && { scope }),
    ...(expiresIn !== undefined && { expiresIn }),
  });
  output.message(CreateTokenResponseSchema, response, () => response.accessToken);
  if (output.format === undefined) {
    const { id = "", expireTime } = response.token ?? {};
    process.stderr.write(
      `flowgate: created token ${printable(id)}, valid until ${formatTime(expireTime)}. It is not shown again.\n`,
    );
  }
}

export async function listTokens({ session, output }: ClientContext, { user = "", limit }: ListFlags): Promise<void> {
  const listed = await collectPages(limit, async (page) => {
    const { tokens, nextPageToken } = await session.tokens.listTokens({ ...page, user });
    return { items: tokens, nextPageToken };
  });
  output.message(ListTokensResponseSchema, create(ListTokensResponseSchema, { tokens: [...listed.items] }), () =>
    listed.items.length === 0
      ? "There are no tokens."
      : output.table(["ID", "NAME", "USER", "SCOPE", "CREATED", "EXPIRES", "LAST USED"], listed.items.map(toRow)),
  );
  noteMore(listed);
}

function toRow({ id, name, user, scope, createTime, expireTime, lastUseTime, valid, clientId }: Token): string[] {
  const title = name === "" ? `(login: ${printable(clientId)})` : printable(name);
  return [
    printable(id),
    title,
    printable(user),
    printable(scope),
    formatTime(createTime),
    valid ? formatTime(expireTime) : "not valid",
    formatTime(lastUseTime),
  ];
}

export async function revokeTokens(
  { connection, session, progress }: ClientContext,
  ids: readonly string[],
  { user, all = false, yes = false }: RevokeFlags,
): Promise<void> {
  const ways = [ids.length > 0, user !== undefined, all].filter(Boolean).length;
  if (ways !== 1) {
    throw usageFailure("token revoke requires ids, --user or --all, and only one of them.", "flowgate token revoke");
  }
  if (ids.length > 0) {
    await progress.during("Revoking tokens", () => revokeEach(session, ids));
    return;
  }
  const whose = user === undefined ? "all users" : printable(user);
  if (!yes) {
    await confirm(`Revoke all tokens of ${whose} at ${connection.server}?`);
  }
  const target = user === undefined ? { case: "all" as const, value: true } : { case: "user" as const, value: user };
  const { revoked } = await session.tokens.revokeTokens({ target });
  process.stdout.write(`Revoked ${count(revoked)} of ${whose}.\n`);
}

/** Revokes all that exist. Throws a CliFailure if some do not. */
async function revokeEach(session: Session, ids: readonly string[]): Promise<void> {
  const unknown: string[] = [];
  let revoked = 0;
  try {
    for (const id of ids) {
      try {
        await session.tokens.deleteToken({ id });
        revoked += 1;
      } catch (error) {
        if (ConnectError.from(error).code !== Code.NotFound) {
          throw error;
        }
        unknown.push(printable(id));
      }
    }
  } finally {
    // Also if the next call has failed.
    if (revoked > 0) {
      process.stdout.write(`Revoked ${count(revoked)}.\n`);
    }
  }
  if (unknown.length > 0) {
    throw new CliFailure(`There is no token with the id ${unknown.join(", ")}: list them with flowgate token list.`);
  }
}

async function confirm(question: string): Promise<void> {
  const { askConfirmation, canAsk } = await import("../output/prompts.ts");
  if (!canAsk()) {
    throw usageFailure("There is no terminal to prompt on: confirm with --yes.", "flowgate token revoke");
  }
  if (!(await askConfirmation(question))) {
    throw new CliFailure("Nothing was revoked.");
  }
}

function count(tokens: number): string {
  return `${tokens} ${tokens === 1 ? "token" : "tokens"}`;
}
