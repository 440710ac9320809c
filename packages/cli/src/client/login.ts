import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Prompt, UserSchema } from "@flowgate/client";
import { CliFailure, UsageFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import { askSecret, askText, canAsk, readSecretLine } from "../output/prompts.ts";
import type { ClientContext } from "./action.ts";
import { changeClientConfig, type SavedToken } from "./config.ts";
import { assertConfidential, type Connection } from "./connection.ts";
import type { IssuerClient } from "./issuer-login.ts";
import { openSession } from "./session.ts";

export type LoginFlags = {
  readonly username?: string;
  readonly passwordStdin?: true;
  readonly scope?: string;
  readonly clientId: string;
  readonly issuer?: string;
  readonly browser?: true;
};

/** Lets the user log in at an issuer of the server, or prompts for what the server requires, and stores the token. */
export async function logIn(context: ClientContext, flags: LoginFlags): Promise<void> {
  const { connection, output, progress } = context;
  const { server } = connection;
  // The token of an earlier login may have expired.
  const { token: _token, login: _login, ...anonymous } = connection;
  const session = openSession(anonymous, progress);
  const { type, prompts } = await session.auth.getLogin({});
  const client = hasPasswordFlag(flags) ? undefined : await chooseIssuer(connection, flags.issuer);
  if (client !== undefined) {
    await logInWith(client, context, flags);
    return;
  }
  if (type === "") {
    await assertAdmitted(context);
    const selected = await saveLogin(connection);
    output.value({ server, ...selected }, () =>
      [`${server} requires no login.`, ...describeSelection(selected)].join("\n"),
    );
    warnOfVariables(connection);
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
  const login = { token, user: username, expireTime };
  const selected = await saveLogin(connection, login).catch(async (error: unknown) => {
    // The token is stored nowhere.
    await session.auth.revokeToken({ token }, { headers: bearer(token) }).catch(() => {});
    throw error;
  });
  reportLogin(context, login, selected);
}

/** The name of the server if it has become the current one. */
type Selection = { readonly name?: string };

/** Stores a login, if there is one. The server that `--server` names is the current one from then on. */
async function saveLogin({ server, named }: Connection, login?: SavedToken): Promise<Selection> {
  if (named === undefined && login === undefined) {
    return {};
  }
  const { selectServer } = await import("./servers.ts");
  let selection: Selection = {};
  await changeClientConfig(process.env, async (config) => {
    const selected = named && selectServer(config, named);
    const isChange = selected !== undefined && config.currentServer !== selected.name;
    selection = isChange ? { name: selected.name } : {};
    return [...(login === undefined ? [] : [{ path: ["tokens", server], value: login }]), ...(selected?.changes ?? [])];
  });
  return selection;
}

function describeSelection({ name }: Selection): string[] {
  return name === undefined ? [] : [`It is the current server from now on, under the name ${name}.`];
}

function reportLogin(
  { connection, output }: ClientContext,
  { user, expireTime }: Pick<SavedToken, "user" | "expireTime">,
  selected: Selection,
): void {
  const { server } = connection;
  output.value({ server, user, expireTime, ...selected }, () =>
    [output.style("green", `Logged in to ${server} as ${printable(user)}.`), ...describeSelection(selected)].join("\n"),
  );
  warnOfVariables(connection);
}

/** Variables of the environment have precedence over what a login has stored. */
function warnOfVariables({ server, named, tokenOrigin }: Connection): void {
  if (tokenOrigin === "environment") {
    process.stderr.write("flowgate: warning: FLOWGATE_TOKEN is set, and is used instead of this login.\n");
  }
  const { FLOWGATE_SERVER = "" } = process.env;
  if (named !== undefined && !["", server, named.name].includes(FLOWGATE_SERVER)) {
    process.stderr.write("flowgate: warning: FLOWGATE_SERVER is set, and names the server that commands use.\n");
  }
}

function hasPasswordFlag({ username, passwordStdin, scope }: LoginFlags): boolean {
  return (username ?? passwordStdin ?? scope) !== undefined;
}

/** The issuer at which to log in; undefined: there is none. */
async function chooseIssuer(connection: Connection, name: string | undefined): Promise<IssuerClient | undefined> {
  const { findIssuers } = await import("./issuer-login.ts");
  const clients = await findIssuers(connection);
  const names = clients.map((client) => printable(client.name)).join(", ");
  if (name === undefined && clients.length > 1) {
    throw new UsageFailure(`${connection.server} has several issuers: specify --issuer with one of: ${names}.`);
  }
  const client = name === undefined ? clients[0] : clients.find((each) => each.name === name);
  if (name !== undefined && client === undefined) {
    throw new CliFailure(
      clients.length === 0
        ? `${connection.server} has no issuer at which the command line can log in.`
        : `${connection.server} has no issuer ${name}. There are: ${names}.`,
    );
  }
  return client;
}

/** Stores the token of an issuer, which the server must accept. */
async function logInWith(client: IssuerClient, context: ClientContext, { browser }: LoginFlags): Promise<void> {
  const { connection, progress } = context;
  const { server } = connection;
  assertConfidential(connection, "token");
  const { logInAtIssuer } = await import("./issuer-login.ts");
  const issued = await logInAtIssuer(client, { opensBrowser: browser === true });
  const { login: _login, ...others } = connection;
  const { username: user } = await openSession({ ...others, token: issued.token }, progress)
    .auth.getIdentity({})
    .catch((error: unknown) => {
      const { code, rawMessage } = ConnectError.from(error);
      throw code === Code.Unauthenticated
        ? new CliFailure(`${server} does not accept the token of ${client.issuer}: ${printable(rawMessage)}`, {
            cause: error,
          })
        : error;
    });
  const login = { ...issued, user };
  reportLogin(context, login, await saveLogin(connection, login));
}

/** A server without logins may still require an identity. */
async function assertAdmitted({ connection, session }: ClientContext): Promise<void> {
  try {
    await session.auth.getIdentity({});
  } catch (error) {
    const { code } = ConnectError.from(error);
    if (code !== Code.Unauthenticated || connection.tokenOrigin === "environment") {
      throw error;
    }
    throw new CliFailure(
      `${connection.server} has no logins, but knows callers by the tokens of other issuers or by client certificates: set FLOWGATE_TOKEN to a token of an issuer that it accepts, or specify a client certificate.`,
      { cause: error },
    );
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
    ...(flags.passwordStdin && { password: await readSecretLine(process.stdin, "password") }),
  };
  const left = prompts.filter(({ id }) => !Object.hasOwn(answers, id));
  if (left.length > 0) {
    if (!canAsk()) {
      throw new UsageFailure(
        "There is no terminal to prompt on: specify --username, and pass the password with --password-stdin.",
      );
    }
    for (const { id, type, label } of left) {
      answers[id] = type === "password" ? await askSecret(label) : await askText(label);
    }
  }
  return answers;
}

/** Revokes the token of the login, and deletes it from the configuration. With `local`, it is only deleted. */
export async function logOut(
  { connection, session, output }: ClientContext,
  { local = false }: { readonly local?: boolean },
): Promise<void> {
  const { server, token, tokenOrigin, login } = connection;
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
    await (login?.issuer === undefined
      ? revoke(session, token, server)
      : (await import("./issuer-login.ts")).revokeAtIssuer(login));
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
    if (!(error instanceof ConnectError) || error.cause instanceof CliFailure) {
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
      ["User", username],
      ["Token", tokenName],
      ["Permissions", permissions.join(" ")],
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
    // Callers without a token may be permitted to read settings.
    if (ConnectError.from(error).code !== Code.Unauthenticated || connection.token !== undefined) {
      throw error;
    }
  }
  const { user } = await session.settings.getSettings({});
  return { username: "", permissions: [], ...user, tokenName: "" };
}
