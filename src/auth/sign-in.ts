import { FlowgateError } from "@flowgate/flows/errors";
import type { Origin } from "../store/audit-store.ts";
import type { SignInSettings } from "./accounts.ts";
import type { AuditRecorder } from "./audit-recorder.ts";
import type { Authenticator } from "./authenticator.ts";
import type { ClientKind } from "./caller.ts";
import type { EditorSignIn } from "./editor-sign-in.ts";
import { invalidToken } from "./errors.ts";
import type { Limiter } from "./limiter.ts";
import { beginAttempt } from "./logins.ts";
import type { Challenge } from "./provider.ts";
import type { Sealer } from "./sealed.ts";
import type { Handover, Sessions } from "./sessions.ts";
import { signInPaths } from "./sign-in-paths.ts";
import type { Tokens } from "./token-cache.ts";
import { type NewToken, revocation, sha256 } from "./tokens.ts";

export type SignInOptions = {
  readonly settings: SignInSettings;
  /** Encrypts the data that a browser keeps while it signs in. */
  readonly sealer: Sealer;
  readonly authenticator: Pick<Authenticator, "issuesTokens" | "verifyLogin" | "insertLogin">;
  readonly sessions: Sessions;
  /** Undefined: people do not sign in at Node-RED's editor. */
  readonly editor?: EditorSignIn | undefined;
  readonly tokens: Tokens;
  /** The limiter that logins use too. */
  readonly limiter: Limiter;
  readonly audit: Pick<AuditRecorder, "record">;
  readonly now: () => number;
};

type Client = { readonly origin: Origin; readonly kind: ClientKind };

type NewSession = { readonly value: string; readonly maxAgeSeconds: number };

/**
 * The place where a browser continues: a page of this service, or Node-RED's editor, which sent it with this request.
 */
export type Destination = { readonly returnTo?: string | undefined; readonly editor?: string | undefined };

/**
 * The place where a signed-in browser continues: with a session, a path of this service; without one, the URL of the
 * editor.
 */
export type SignedIn = { readonly session: NewSession | undefined; readonly url: string };

/** The data that a browser keeps from the start of a sign-in at an issuer to its completion. */
type Transaction = Challenge & {
  readonly issuer: string;
  readonly returnTo: string | undefined;
  /** The secret of the editor's sign-in. */
  readonly secret: string | undefined;
  /**
   * The hash of the session that the browser had. Its cookie does not come with the request to which a provider on another site sends the
   * browser.
   */
  readonly previous: string | undefined;
  readonly expiresAtMs: number;
};

export const transactionSeconds = 600;

/** Begins and ends the sessions of browsers. */
export class SignIn {
  readonly #options: SignInOptions;

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  get issuers(): readonly string[] {
    return [...this.#options.sessions.providers.keys()];
  }

  get takesPasswords(): boolean {
    return this.#options.authenticator.issuesTokens;
  }

  get isPossible(): boolean {
    return this.takesPasswords || this.#options.sessions.providers.size > 0;
  }

  /**
   * Begins a sign-in at an issuer. Returns the URL for the browser, and the data that it must keep until it comes back.
   * `previous` is its session until now, which ends when the sign-in is completed.
   */
  async begin(
    issuer: string,
    { returnTo, editor, previous }: Destination & { readonly previous?: string | undefined },
  ): Promise<{ readonly location: string; readonly transaction: string }> {
    const provider = this.#options.sessions.providers.get(issuer);
    if (provider === undefined) {
      throw new FlowgateError("not_found", "Unknown issuer: sign in at one that /sign-in offers.");
    }
    const secret = this.#secretOf(editor);
    const { location, challenge } = await provider.begin();
    const expiresAtMs = this.#options.now() + transactionSeconds * 1000;
    const transaction: Transaction = {
      ...challenge,
      issuer,
      returnTo,
      secret,
      previous: previous === undefined ? undefined : sha256(previous).toString("base64url"),
      expiresAtMs,
    };
    return { location, transaction: this.#options.sealer.seal("sign-in", transaction).toString("base64url") };
  }

  /**
   * Completes a sign-in. `target` is the request to which the issuer has sent the browser, and `kept` the data that the
   * browser has kept.
   */
  async complete(target: string, kept: string | undefined, { origin, kind }: Client): Promise<SignedIn> {
    const { settings, sealer, sessions, limiter, audit, now } = this.#options;
    const transaction = sealer.unseal("sign-in", Buffer.from(kept ?? "", "base64url")) as Transaction | undefined;
    const provider = sessions.providers.get(transaction?.issuer ?? "");
    const url = new URL(target, settings.url ?? "http://localhost");
    const isBegun = url.pathname === signInPaths.callback + transaction?.issuer;
    if (transaction === undefined || !isBegun || transaction.expiresAtMs <= now() || provider === undefined) {
      throw invalidToken("The sign-in was not begun in this browser, or has taken too long: start again.");
    }
    const { issuer, secret, returnTo } = transaction;
    const previous = transaction.previous === undefined ? undefined : Buffer.from(transaction.previous, "base64url");
    const recordFailure = (detail: string): void =>
      audit.record({ kind: "sign_in_failed", origin, detail: `issuer ${issuer}: ${detail}` });
    // Anyone can send codes, each of which is a request to the issuer.
    const source = { address: origin.address ?? "", kind };
    const attempt = await beginAttempt(limiter, undefined, source, () => recordFailure("locked out"));
    let signedIn: SignedIn;
    try {
      const tokens = await provider.complete(url, transaction);
      const create = (handover?: Handover) => sessions.createForIssuer(provider, tokens, handover);
      signedIn = await this.#insert(create, { secret, returnTo, previous }, origin);
    } catch (error) {
      if (error instanceof FlowgateError && error.reason === "invalid_token") {
        await attempt.fail();
        recordFailure(error.message);
      } else {
        await attempt.abandon();
        if (error instanceof FlowgateError && error.reason === "insufficient_scope") {
          recordFailure(error.message);
        }
      }
      throw error;
    }
    await attempt.succeed();
    return signedIn;
  }

  /** Signs in a user with a password. `previous` is the session of the browser until now, which ends. Rejects with an error of RFC 6749. */
  async withPassword(
    login: { readonly username: string; readonly password: string },
    { returnTo, editor, previous }: Destination & { readonly previous: string | undefined },
    { origin, kind }: Client,
  ): Promise<SignedIn> {
    const { authenticator, sessions } = this.#options;
    const secret = this.#secretOf(editor);
    const { username, permissions, password } = await authenticator.verifyLogin(login, { origin, kind });
    return this.#insert(
      (handover) => sessions.createForUser(username, permissions, sha256(password), handover),
      { secret, returnTo, previous: previous === undefined ? undefined : sha256(previous) },
      origin,
    );
  }

  /**
   * Ends the sessions that a browser has sent, of which it can have several. Resolves with the URL at which it signs out at an issuer, if
   * there is one.
   */
  async end(values: readonly string[], origin: Origin): Promise<string | undefined> {
    const urls: (string | undefined)[] = [];
    for (const value of values) {
      const token = await this.#remove(sha256(value), origin);
      urls.push(token && (await this.#options.sessions.endAtProvider(token)));
    }
    return urls.find((url) => url !== undefined);
  }

  /**
   * Returns the metadata with which clients obtain tokens for this service (RFC 9728), and the command line's clients.
   * Undefined if the service's URL is not configured.
   */
  protectedResource(): object | undefined {
    const { url } = this.#options.settings;
    if (url === undefined) {
      return undefined;
    }
    const providers = [...this.#options.sessions.providers.values()].map(({ issuer }) => issuer);
    return {
      resource: url,
      resource_name: "Flowgate",
      ...(providers.length > 0 && { authorization_servers: providers.map(({ issuer }) => issuer) }),
      bearer_methods_supported: ["header"],
      flowgate_clients: providers.flatMap(({ name, issuer, signIn: { deviceClientId, scopes, parameters } }) =>
        deviceClientId === undefined
          ? []
          : [{ name, issuer, client_id: deviceClientId, scope: scopes.join(" "), parameters }],
      ),
    };
  }

  /** The secret in the request of the editor; undefined: the browser signs in at this service. */
  #secretOf(request: string | undefined): string | undefined {
    const { editor } = this.#options;
    if (request !== undefined && editor === undefined) {
      throw new FlowgateError("not_found", "Sign-in at Node-RED's editor is off: nodeRed.url is not set.");
    }
    return request === undefined ? undefined : editor?.readRequest(request);
  }

  async #insert(
    create: (handover?: Handover) => NewToken | Promise<NewToken>,
    {
      secret,
      returnTo,
      previous,
    }: Pick<Transaction, "secret" | "returnTo"> & { readonly previous: Uint8Array | undefined },
    origin: Origin,
  ): Promise<SignedIn> {
    const { authenticator, editor, now } = this.#options;
    if (secret !== undefined && editor !== undefined) {
      const { url, ...handover } = editor.createHandover(secret);
      const { token } = await create(handover);
      await authenticator.insertLogin(token, origin);
      return { session: undefined, url };
    }
    const { accessToken, token } = await create();
    await authenticator.insertLogin(token, origin);
    if (previous !== undefined) {
      await this.#remove(previous, origin);
    }
    const maxAgeSeconds = Math.floor((token.expiresAtMs - now()) / 1000);
    return { session: { value: accessToken, maxAgeSeconds }, url: toPath(returnTo) };
  }

  /** Resolves with the session that was removed. */
  async #remove(hash: Uint8Array, origin: Origin) {
    const { tokens } = this.#options;
    const token = await tokens.find(hash);
    if (token?.session === undefined) {
      return undefined;
    }
    await tokens.remove({ hash }, revocation(token, { ...origin, by: token.username }));
    return token;
  }
}

const maxReturnChars = 1000;

/** A path of this service with its query, since others must not be able to choose where a browser is sent. */
function toPath(returnTo = ""): string {
  const origin = "http://localhost";
  const url = returnTo.length > maxReturnChars ? null : URL.parse(returnTo, origin);
  // As a whole, since a path such as //other.example would be another origin by itself.
  return url?.origin === origin && returnTo.startsWith("/") ? url.href.slice(origin.length) : "/";
}
