import { Code } from "@connectrpc/connect";
import { CreateTokenResponseSchema, ListTokensResponseSchema, type Token } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { type ClientSession, unless } from "../client/session.ts";
import { CliFailure, UsageFailure } from "../failure.ts";
import { printList } from "../output/list.ts";
import { printable } from "../printable.ts";
import { confirm } from "../output/prompts.ts";
import { formatTime } from "../output/values.ts";

export type CreateFlags = { readonly scope?: string; readonly expiresIn?: number };
export type TokenListFlags = { readonly user?: string; readonly limit: number };
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

export async function listTokens(
  { session, output }: ClientContext,
  { user = "", limit }: TokenListFlags,
): Promise<void> {
  await printList(output, {
    schema: ListTokensResponseSchema,
    limit,
    fetchPage: (page) => session.tokens.listTokens({ ...page, user }),
    itemsOf: ({ tokens }) => tokens,
    none: "There are no tokens.",
    head: ["ID", "NAME", "USER", "SCOPE", "CREATED", "EXPIRES", "LAST USED"],
    toRow,
  });
}

function toRow({ id, name, user, scope, createTime, expireTime, lastUseTime, valid, clientId }: Token): string[] {
  const title = name === "" ? `(login: ${clientId})` : name;
  return [
    id,
    title,
    user,
    scope,
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
    throw new UsageFailure("token revoke requires ids, --user or --all, and only one of them.");
  }
  if (ids.length > 0) {
    await progress.during("Revoking tokens", () => revokeEach(session, ids));
    return;
  }
  const whose = user === undefined ? "all users" : printable(user);
  if (!yes) {
    await confirm(`Revoke all tokens of ${whose} at ${connection.server}?`, {
      declined: "Nothing was revoked.",
      unattended: new UsageFailure("There is no terminal to prompt on: confirm with --yes."),
    });
  }
  const target = user === undefined ? { case: "all" as const, value: true } : { case: "user" as const, value: user };
  const { revoked } = await session.tokens.revokeTokens({ target });
  process.stdout.write(`Revoked ${count(revoked)} of ${whose}.\n`);
}

/** Revokes all that exist. Throws a CliFailure if some do not. */
async function revokeEach(session: ClientSession, ids: readonly string[]): Promise<void> {
  const unknown: string[] = [];
  let revoked = 0;
  try {
    for (const id of ids) {
      if ((await unless(Code.NotFound, session.tokens.deleteToken({ id }))) === undefined) {
        unknown.push(printable(id));
      } else {
        revoked += 1;
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

function count(tokens: number): string {
  return `${tokens} ${tokens === 1 ? "token" : "tokens"}`;
}
