import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { UserSchema } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { printable } from "../printable.ts";

/** Prints as whom the server sees the caller. */
export async function showIdentity(context: ClientContext): Promise<void> {
  const { connection, output } = context;
  const { username, permissions, tokenName } = await readIdentity(context);
  if (username === "") {
    output.value({}, () => `No user: ${connection.server} was called without a token.`);
    return;
  }
  output.message(UserSchema, create(UserSchema, { username, permissions: [...permissions] }), () =>
    output.fields([
      ["User", printable(username)],
      ["Token", printable(tokenName)],
      ["Permissions", printable(permissions.join(" "))],
      ["Server", connection.server],
    ]),
  );
}

type Identity = { readonly username: string; readonly permissions: readonly string[]; readonly tokenName: string };

/** Without a username if the server needs no authentication. */
async function readIdentity({ connection, session }: ClientContext): Promise<Identity> {
  try {
    return await session.auth.getIdentity({});
  } catch (error) {
    const { code } = ConnectError.from(error);
    // Older servers have the settings only. Callers without a token may be permitted to read them.
    if (code !== Code.Unimplemented && !(code === Code.Unauthenticated && connection.token === undefined)) {
      throw error;
    }
  }
  const { user } = await session.settings.getSettings({});
  return { username: "", permissions: [], ...user, tokenName: "" };
}
