import { FlowgateError } from "@flowgate/flows/errors";
import { systemOrigin } from "../store/audit-store.ts";
import type { StoredToken } from "../store/token-store.ts";
import type { SignInSettings, TokenIssuer } from "./accounts.ts";
import { editorClientId, toolPermissions } from "./audiences.ts";
import type { Principal } from "./caller.ts";
import { endedSession, signedInWithout } from "./errors.ts";
import type { Issuers } from "./issuers.ts";
import { defaultScope, narrow } from "./permissions.ts";
import type { Provider, ProviderOptions, ProviderTokens } from "./provider.ts";
import { type KeptData, parseKept, type Session, type SessionData, readSession } from "./session-data.ts";
import { signInPaths } from "./sign-in-paths.ts";
import type { Tokens } from "./token-cache.ts";
import { type NewToken, createNewToken, sha256 } from "./tokens.ts";

/** A session of Node-RED's editor, which gets its token until this time, once. */
export type Handover = { readonly accessToken: string; readonly untilMs: number };

export type SessionsOptions = Pick<ProviderOptions, "log" | "now" | "timeoutMs"> & {
  readonly settings: SignInSettings;
  readonly tokens: Tokens;
};

type TokenVerifier = Pick<Issuers, "verifyIdToken" | "principalOf">;

/** Without a refresh token, nothing reports that someone has left a group or the company. */
const maxSecondsWithoutRenewal = 3_600;
const defaultRenewalSeconds = 300;
/** More than a renewal takes. */
const renewalMs = 30_000;
/** The time between attempts while the provider does not respond. */
const pauseMs = 10_000;
/** The time for which known claims stay in use while the provider does not respond. */
const maxOverdueMs = 10 * 60_000;

/**
 * Browser sessions: tokens in a cookie, with the data that renews them at an issuer. Sessions with a handover belong to
 * Node-RED's editor, whose token its page sends.
 */
export class Sessions {
  readonly #options: SessionsOptions;
  #providers: ReadonlyMap<string, Provider> = new Map();
  #verifier: TokenVerifier | undefined;
  readonly #opened = new WeakMap<StoredToken, { readonly session: Session | undefined }>();
  #principals = new WeakMap<StoredToken, Principal>();
  /** By the id of the session. */
  readonly #renewals = new Map<string, Promise<Principal>>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  get providers(): ReadonlyMap<string, Provider> {
    return this.#providers;
  }

  /**
   * Prepares other issuers, and rejects if one can't be used. They are in force for all calls after the returned function was called.
   * `verifier` verifies their ID tokens.
   */
  async prepare(issuers: readonly TokenIssuer[], verifier: TokenVerifier): Promise<() => void> {
    const { settings, log, now, timeoutMs } = this.#options;
    const { url } = settings;
    const providers = new Map<string, Provider>();
    for (const { signIn, ...issuer } of issuers) {
      // Its requirement is checked with the options: here it is missing if it was configured after the start.
      if (signIn !== undefined && url !== undefined) {
        const { openProvider } = await import("./provider.ts");
        const urls = { redirectUrl: url + signInPaths.callback + issuer.name, signedOutUrl: url + signInPaths.signIn };
        const provider = { issuer: { ...issuer, signIn }, ...urls, log, now, timeoutMs };
        providers.set(issuer.name, await openProvider(provider));
      }
    }
    return () => {
      this.#verifier = verifier;
      this.#providers = providers;
      this.#principals = new WeakMap();
    };
  }

  /** Creates the session of a user with a password, whose hash has this fingerprint. */
  createForUser(
    username: string,
    permissions: readonly string[],
    passwordFingerprint: Buffer,
    handover?: Handover,
  ): NewToken {
    const { lifetimeSeconds } = this.#options.settings;
    return this.#create({ username, permissions }, passwordFingerprint, lifetimeSeconds, {}, handover);
  }

  /** Creates a session with the response of an issuer. Rejects with `insufficient_scope` if no rule of the issuer applies to it. */
  async createForIssuer(provider: Provider, tokens: ProviderTokens, handover?: Handover): Promise<NewToken> {
    const { name, signIn } = provider.issuer;
    const { settings } = this.#options;
    const verifier = this.#verifierOfIssuers();
    const { idToken = "", refreshToken } = tokens;
    const claims = await verifier.verifyIdToken(idToken, name, signIn.clientId);
    const principal = verifier.principalOf(name, claims, (username) => signedInWithout("access", username));
    const lifetimeSeconds =
      refreshToken === undefined
        ? Math.min(settings.lifetimeSeconds, maxSecondsWithoutRenewal)
        : settings.lifetimeSeconds;
    const data: SessionData = { issuer: name, idToken, refreshToken, renewAtMs: this.#renewAtMs(tokens) };
    return this.#create(principal, sha256(`issuer ${name}`), lifetimeSeconds, data, handover);
  }

  /** True if the token of a session is handed over now: it exists, and was not handed over before. */
  async handOver(accessToken: string): Promise<boolean> {
    const { tokens, now } = this.#options;
    const hash = sha256(accessToken);
    const { session: from } = (await tokens.findStored(hash)) ?? {};
    const { handoverUntilMs = 0, ...data } = parseKept(from) ?? {};
    return from !== undefined && handoverUntilMs > now()
      ? tokens.updateSession({ hash, from, to: JSON.stringify(data) })
      : false;
  }

  /** True if the user of the session may still use it, as far as is known. */
  isValid(token: StoredToken): boolean {
    try {
      return this.#principal(token, this.#open(token)) !== undefined;
    } catch (error) {
      if (error instanceof FlowgateError) {
        return false;
      }
      throw error;
    }
  }

  /**
   * The caller with the session of an issuer, whose claims are renewed if that is due. Throws or rejects with `invalid_token` if the
   * session has ended, and with `unavailable` if its claims can't be renewed for too long.
   */
  principalOf(token: StoredToken): Principal | Promise<Principal> {
    const session = this.#open(token);
    if (!this.#isDue(session)) {
      return this.#principal(token, session);
    }
    let renewal = this.#renewals.get(token.id);
    if (renewal === undefined) {
      renewal = this.#renew(token.hash).finally(() => this.#renewals.delete(token.id));
      this.#renewals.set(token.id, renewal);
    }
    return renewal;
  }

  /** Ends the session at the provider. Resolves with the URL at which a browser signs out there, if there is one. */
  async endAtProvider(token: StoredToken): Promise<string | undefined> {
    const { issuer, refreshToken, idToken } = this.#read(token) ?? {};
    const provider = this.#providers.get(issuer ?? "");
    if (provider === undefined || idToken === undefined) {
      return undefined;
    }
    if (refreshToken !== undefined) {
      // The browser does not wait for it: the session of this service has ended.
      void provider.revoke(refreshToken);
    }
    return provider.signOutUrl(idToken);
  }

  #verifierOfIssuers(): TokenVerifier {
    if (this.#verifier === undefined) {
      throw endedSession();
    }
    return this.#verifier;
  }

  #create(
    { username, permissions }: Principal,
    passwordFingerprint: Buffer,
    lifetimeSeconds: number,
    data: SessionData | object,
    handover?: Handover,
  ): NewToken {
    const permitted = defaultScope(permissions);
    const scope = handover === undefined ? permitted : narrow(permitted, toolPermissions);
    if (handover !== undefined && scope.length === 0) {
      throw signedInWithout("permission that Node-RED's editor can use", username ?? "");
    }
    const { accessToken, token } = createNewToken(
      this.#options.now(),
      {
        name: undefined,
        username: username ?? "",
        passwordFingerprint,
        clientId: handover === undefined ? "browser" : editorClientId,
        scope: scope.join(" "),
        lifetimeSeconds,
      },
      handover?.accessToken,
    );
    const kept: KeptData = { ...data, handoverUntilMs: handover?.untilMs };
    return { accessToken, token: { ...token, session: JSON.stringify(kept) } };
  }

  #renewAtMs({ refreshToken, expiresInSeconds = defaultRenewalSeconds }: ProviderTokens): number | undefined {
    const seconds = Math.min(Math.max(expiresInSeconds, 1), maxSecondsWithoutRenewal);
    return refreshToken === undefined ? undefined : this.#options.now() + seconds * 1000;
  }

  #isDue({ renewAtMs = Number.POSITIVE_INFINITY }: SessionData): boolean {
    return renewAtMs <= this.#options.now();
  }

  /** Throws `invalid_token` if it has expired, is not of an issuer, or was sealed with another key. */
  #open(token: StoredToken): Session {
    const session = this.#read(token);
    if (session === undefined || token.expiresAtMs <= this.#options.now() || !this.#providers.has(session.issuer)) {
      throw endedSession();
    }
    return session;
  }

  #read(token: StoredToken): Session | undefined {
    let opened = this.#opened.get(token);
    if (opened === undefined) {
      opened = { session: readSession(parseKept(token.session)) };
      this.#opened.set(token, opened);
    }
    return opened.session;
  }

  #principal(token: StoredToken, { issuer, claims }: Session): Principal {
    let principal = this.#principals.get(token);
    if (principal === undefined) {
      const { username, permissions } = this.#verifierOfIssuers().principalOf(issuer, claims);
      principal = { username, permissions: defaultScope(permissions), token: { id: token.id, name: undefined } };
      this.#principals.set(token, principal);
    }
    // Another issuer may have the name now.
    if (principal.username !== token.username || claims.iss !== this.#providers.get(issuer)?.issuer.issuer) {
      throw endedSession();
    }
    return principal;
  }

  /** Renews the claims of a session, unless another process does, or has done it. */
  async #renew(hash: Uint8Array): Promise<Principal> {
    const { tokens, now } = this.#options;
    const token = await tokens.findStored(hash);
    if (token?.session === undefined) {
      throw endedSession();
    }
    const session = this.#open(token);
    if (!this.#isDue(session)) {
      return this.#principal(token, session);
    }
    const { pausedUntilMs = 0 } = session;
    // The process that pauses the others has the refresh token to itself: providers end a session whose token is used twice.
    const paused =
      pausedUntilMs > now() ? undefined : await this.#update(token, session, { pausedUntilMs: now() + renewalMs });
    if (paused === undefined) {
      return this.#overdue(token, session);
    }
    try {
      return await this.#renewAt(paused, session);
    } catch (error) {
      if (error instanceof FlowgateError && error.reason === "invalid_token") {
        const detail = `the session of ${token.username} was ended by its issuer`;
        await tokens.remove({ hash }, { kind: "token_revoked", origin: systemOrigin, subject: token.id, detail });
        throw endedSession();
      }
      if (error instanceof FlowgateError && error.reason === "unavailable") {
        await this.#update(paused, session, { pausedUntilMs: now() + pauseMs });
        return this.#overdue(token, session);
      }
      throw error;
    }
  }

  /** Rejects with `invalid_token` if the issuer has ended the session, or the person may not use this service any more. */
  async #renewAt(token: StoredToken, { claims, ...session }: Session): Promise<Principal> {
    const { now } = this.#options;
    const { issuer, refreshToken = "" } = session;
    const provider = this.#providers.get(issuer);
    if (provider === undefined) {
      throw endedSession();
    }
    const response = await provider.refresh(refreshToken);
    const { idToken = session.idToken, refreshToken: next = refreshToken } = response;
    // Kept before the claims are verified, which may fail for now: the previous one can't be used again.
    const kept =
      next === refreshToken
        ? token
        : await this.#update(token, { ...session, claims }, { refreshToken: next, pausedUntilMs: now() + renewalMs });
    if (kept === undefined) {
      throw endedSession();
    }
    const renewed =
      response.idToken === undefined
        ? claims
        : await this.#verifierOfIssuers().verifyIdToken(idToken, issuer, provider.issuer.signIn.clientId);
    // OpenID Connect Core, section 12.2.
    if (renewed.sub !== claims.sub) {
      throw endedSession();
    }
    const renewAtMs = this.#renewAtMs({ ...response, refreshToken: next });
    const change = { idToken, refreshToken: next, renewAtMs, pausedUntilMs: undefined };
    // The session may have been ended meanwhile.
    const updated = await this.#update(kept, { ...session, claims: renewed }, change);
    if (updated === undefined) {
      throw endedSession();
    }
    return this.#principal(updated, { ...session, claims: renewed });
  }

  /** Changes the stored data; undefined if another process has changed it. */
  async #update(token: StoredToken, session: Session, change: Partial<SessionData>): Promise<StoredToken | undefined> {
    const { claims: _claims, ...data } = session;
    const { tokens } = this.#options;
    const { hash, session: from = "" } = token;
    const to = JSON.stringify({ ...data, ...change });
    return (await tokens.updateSession({ hash, from, to })) ? { ...token, session: to } : undefined;
  }

  /** The caller by the claims that are known. */
  #overdue(token: StoredToken, session: Session): Principal {
    const principal = this.#principal(token, session);
    if (this.#options.now() - (session.renewAtMs ?? 0) > maxOverdueMs) {
      throw new FlowgateError("unavailable", `The issuer ${session.issuer} can't renew the session now: try again.`, {
        retryAfterMs: pauseMs,
      });
    }
    return principal;
  }
}
