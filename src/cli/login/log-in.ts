import type { Prompt } from "@flowgate/client";
import { assertConfidential } from "../client/assert-confidential.ts";
import type { ClientContext } from "../client/client-action.ts";
import { changeClientConfig } from "../client/config-store.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { printable } from "../printable.ts";

export type LoginFlags = {
  readonly username?: string;
  readonly passwordStdin?: true;
  readonly scope?: string;
  readonly clientId: string;
};

/** Prompts for what the server requires, and stores the token that it issues. */
export async function logIn({ connection, session, output }: ClientContext, flags: LoginFlags): Promise<void> {
  const { server } = connection;
  const { type, prompts } = await session.auth.getLogin({});
  if (type === "") {
    output.value({ server }, () => `${server} requires no login.`);
    return;
  }
  if (type !== "credentials") {
    throw new CliFailure(`${server} requires a kind of login that this version does not know: ${printable(type)}.`);
  }
  assertConfidential(connection, "password");
  const answers = await answerPrompts(prompts, flags);
  const { username = "", password = "" } = answers;
  const { accessToken: token, expiresIn } = await session.auth.issueToken({
    clientId: flags.clientId,
    grantType: "password",
    ...(flags.scope !== undefined && { scope: flags.scope }),
    username,
    password,
  });
  const expireTime = new Date(Date.now() + expiresIn * 1000).toISOString();
  try {
    await changeClientConfig(process.env, [{ path: ["tokens", server], value: { token, user: username, expireTime } }]);
  } catch (error) {
    // The token is stored nowhere.
    await session.auth.revokeToken({ token }, { headers: bearer(token) }).catch(() => {});
    throw error;
  }
  output.value({ server, user: username, expireTime }, () =>
    output.style("green", `Logged in to ${server} as ${printable(username)}.`),
  );
  if (connection.tokenOrigin === "environment") {
    process.stderr.write("flowgate: warning: FLOWGATE_TOKEN is set, and is used instead of this login.\n");
  }
}

function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` };
}

type Answers = { readonly username?: string; readonly password?: string };

/** Prompts only for values that no flag sets. A password is never a flag, since other users of the machine could see it. */
async function answerPrompts(prompts: readonly Prompt[], flags: LoginFlags): Promise<Answers> {
  const answers: Record<string, string> = {
    ...(flags.username !== undefined && { username: flags.username }),
    ...(flags.passwordStdin && { password: await readPassword() }),
  };
  const left = prompts.filter(({ id }) => !Object.hasOwn(answers, id));
  if (left.length > 0) {
    const { askSecret, askText, canAsk } = await import("../prompts.ts");
    if (!canAsk()) {
      throw usageFailure(
        "There is no terminal to prompt on: specify --username, and pass the password with --password-stdin.",
        "flowgate login",
      );
    }
    for (const { id, type, label } of left) {
      answers[id] = type === "password" ? await askSecret(label) : await askText(label);
    }
  }
  return answers;
}

async function readPassword(): Promise<string> {
  const { readSecretLine } = await import("../read-line.ts");
  return readSecretLine(process.stdin, "password");
}
