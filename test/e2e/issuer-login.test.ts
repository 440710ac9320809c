import { mkdtempDisposable, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { clientId, clientSecret, deviceClientId, openProvider, type OpenIdProvider } from "../auth/openid-provider.ts";
import { runCommand } from "../cli/run-command.ts";
import { startCli } from "../cli/running-cli.ts";
import { freePort } from "../free-port.ts";
import { CookieBrowser } from "./cookie-browser.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { passwordOf, user } from "./users.ts";

const audience = "https://flows.example";

let url: string;
let provider: OpenIdProvider;
let service: Service;

beforeAll(async () => {
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  provider = await openProvider([url], audience);
  provider.people.set("1", { preferred_username: "ada", groups: ["people"] });
  const issuer = {
    name: "company",
    issuer: provider.issuer,
    audience,
    jwksUrl: provider.jwksUrl,
    usernameClaim: "preferred_username",
    rules: [{ claims: { groups: "people" }, permissions: "viewer" }],
    signIn: { clientId, clientSecret, deviceClientId, scopes: ["openid", "profile", "groups"] },
  };
  const adminAuth = { signIn: { url }, users: [user("admin", "*")], issuers: [issuer] };
  service = await startService({ port, config: { ...withoutRuntime, adminAuth } });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
});
afterEach(() => {
  provider.lifetimeSeconds = 300;
  provider.intercept = undefined;
});

/** The environment of a user with a configuration of its own. */
async function openUser() {
  const folder = await mkdtempDisposable(join(tmpdir(), "flowgate-login-"));
  const env = { FLOWGATE_SERVER: url, XDG_CONFIG_HOME: folder.path };
  const path = join(folder.path, "flowgate/config.yaml");
  return {
    env,
    path,
    run: (args: readonly string[], input = "") => runCommand(args, { env, input }),
    readToken: async () => {
      const { tokens } = parse(await readFile(path, "utf8")) as { tokens: Record<string, Record<string, string>> };
      return tokens[url];
    },
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

/** Logs in by the device flow, with the browser of another device. */
async function logIn(env: Readonly<Record<string, string>>, answer: "confirm" | "abort" = "confirm") {
  await using cli = startCli(["login"], env);
  const shown = await cli.until(/the code \S+\.\n/, "stderr");
  const [, page = ""] = /^ {2}(http\S+)$/m.exec(shown) ?? [];
  const browser = new CookieBrowser();
  await browser.submit(await browser.visit(page), { [answer]: "yes" });
  return await cli.ended;
}

test("someone logs in with a browser on any device, and the token is renewed until the logout", async () => {
  await using person = await openUser();
  provider.lifetimeSeconds = 20;
  const { code, stdout, stderr } = await logIn(person.env);
  expect([code, stdout, stderr]).toEqual([
    0,
    expect.stringContaining(`Logged in to ${url} as company:ada.`),
    expect.anything(),
  ]);
  expect((await stat(person.path)).mode & 0o777).toBe(0o600);
  const first = await person.readToken();
  expect(first).toMatchObject({ user: "company:ada", issuer: provider.issuer, clientId: deviceClientId });
  // It is renewed before it expires, by each of several commands only if no other has done it.
  const outcomes = await Promise.all([person.run(["whoami"]), person.run(["whoami"]), person.run(["whoami"])]);
  expect(outcomes.map((each) => [each.code, /User +(\S+)/.exec(each.stdout)?.[1]])).toEqual(
    outcomes.map(() => [0, "company:ada"]),
  );
  const second = await person.readToken();
  expect(second?.["token"]).not.toBe(first?.["token"]);
  expect(second?.["refreshToken"]).not.toBe(first?.["refreshToken"]);
  const logout = await person.run(["logout"]);
  expect([logout.code, logout.stdout]).toEqual([0, expect.stringContaining("Logged out")]);
  expect(provider.requests).toContain("POST /token/revocation");
  expect(await person.readToken()).toBeUndefined();
  expect((await person.run(["whoami"])).stderr).toContain(`Log in with: flowgate login --server ${url}`);
});

test("a login ends with the person at the issuer", async () => {
  await using person = await openUser();
  provider.lifetimeSeconds = 20;
  provider.people.set("2", { preferred_username: "bob", groups: ["people"] });
  provider.visitor = "2";
  expect((await logIn(person.env)).code).toBe(0);
  provider.visitor = "1";
  provider.intercept = ({ socket }) => socket.destroy() !== undefined;
  expect((await person.run(["whoami"])).stderr).toContain(provider.issuer);
  provider.intercept = undefined;
  provider.people.delete("2");
  const { code, stderr } = await person.run(["whoami"]);
  expect([code, stderr]).toEqual([
    1,
    `flowgate: The login at ${url} has ended. Log in again with: flowgate login --server ${url}\n`,
  ]);
});

test("a refused login stores nothing", async () => {
  await using person = await openUser();
  const { code, stderr } = await logIn(person.env, "abort");
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining(`The login was refused at ${provider.issuer}: access_denied.`),
  ]);
  await expect(stat(person.path)).rejects.toThrow("ENOENT");
});

test("users with a password name themselves", async () => {
  await using person = await openUser();
  const { code, stdout } = await person.run(["login", "-u", "admin", "--password-stdin"], passwordOf("admin"));
  expect([code, stdout]).toEqual([0, expect.stringContaining("as admin")]);
  const unknown = await person.run(["login", "--issuer", "other"]);
  expect([unknown.code, unknown.stderr]).toEqual([
    1,
    expect.stringContaining("has no issuer other. There are: company."),
  ]);
});

test("the metadata of the server name the issuer and the client, for this URL only", async () => {
  const metadata = (await service.send("GET", "/.well-known/oauth-protected-resource")).json();
  expect(metadata).toEqual({
    resource: url,
    resource_name: "Flowgate",
    authorization_servers: [provider.issuer],
    bearer_methods_supported: ["header"],
    flowgate_clients: [
      {
        name: "company",
        issuer: provider.issuer,
        client_id: deviceClientId,
        scope: "openid profile groups",
        parameters: {},
      },
    ],
  });
  await using person = await openUser();
  const other = url.replace("127.0.0.1", "localhost");
  const { code, stderr } = await person.run(["login", "--server", other]);
  expect([code, stderr]).toEqual([1, expect.stringContaining(`${other} names itself ${url}: log in with`)]);
});
