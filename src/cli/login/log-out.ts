import { Code, ConnectError } from "@connectrpc/connect";
import type { ClientContext } from "../client/client-action.ts";
import { changeClientConfig } from "../client/config-store.ts";
import { CliFailure } from "../failure.ts";

/** Revokes the token of the login, and deletes it from the configuration. With `local`, it is only deleted. */
export async function logOut(
  { connection, session, output }: ClientContext,
  { local = false }: { readonly local?: boolean },
): Promise<void> {
  const { server, token, tokenOrigin } = connection;
  if (tokenOrigin === "environment") {
    throw new CliFailure(
      "FLOWGATE_TOKEN is set, and is not from a login: unset it, or revoke its token with flowgate token revoke.",
    );
  }
  if (token === undefined) {
    output.value({ server }, () => `There is no login at ${server}.`);
    return;
  }
  if (!local) {
    await revoke(session, token, server);
  }
  await changeClientConfig(process.env, [{ path: ["tokens", server], value: undefined }]);
  output.value({ server }, () =>
    local ? `Forgot the login at ${server}, whose token stays valid there.` : `Logged out of ${server}.`,
  );
}

async function revoke({ auth }: ClientContext["session"], token: string, server: string): Promise<void> {
  try {
    await auth.revokeToken({ token });
  } catch (error) {
    if (!(error instanceof ConnectError)) {
      throw error;
    }
    // It has expired, or was revoked before.
    if (error.code === Code.Unauthenticated) {
      return;
    }
    throw new CliFailure(
      `The token was not revoked: ${server}: ${error.rawMessage}. Try again later, or only delete it from this machine with flowgate logout --local.`,
      { cause: error },
    );
  }
}
