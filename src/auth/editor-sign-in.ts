import { randomBytes } from "node:crypto";
import type { Origin } from "../store/audit-store.ts";
import { invalidToken } from "./errors.ts";
import type { Sealer } from "./sealed.ts";
import type { Handover, Sessions } from "./sessions.ts";
import { signInPaths } from "./sign-in-paths.ts";
import type { Tokens } from "./token-cache.ts";
import { revocation, sha256 } from "./tokens.ts";

export type EditorSignInOptions = {
  /** The origin at which browsers reach the sign-in. */
  readonly signInOrigin: string;
  /** The origin at which browsers reach Node-RED's editor. */
  readonly url: string;
  readonly sealer: Sealer;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly now: () => number;
};

/** The editor's request to the sign-in, encrypted. */
type EditorRequest = { readonly secret: string; readonly expiresAtMs: number };

/** The time limit for signing in with a browser. */
const editorRequestSeconds = 600;
/** The time limit for the editor's page to load and send the code. */
const handoverMs = 60_000;

/**
 * Signs people in at Node-RED's editor by the pages of the API's origin: neither a password nor a response of a
 * provider reaches the editor's origin, whose pages run code of modules. The editor gets its token for a code in its
 * URL and a secret in a cookie of the browser that began the sign-in. Neither suffices alone, so that no user can be
 * signed in as another.
 */
export class EditorSignIn {
  readonly #options: EditorSignInOptions;

  constructor(options: EditorSignInOptions) {
    this.#options = options;
  }

  get url(): string {
    return this.#options.url;
  }

  get issuers(): readonly string[] {
    return [...this.#options.sessions.providers.keys()];
  }

  /** Returns the sign-in URL for a browser, and the secret that the browser must keep until it is back. */
  begin(): { readonly location: string; readonly secret: string; readonly expiresInSeconds: number } {
    const { signInOrigin, sealer, now } = this.#options;
    const secret = randomBytes(32).toString("base64url");
    const request: EditorRequest = { secret, expiresAtMs: now() + editorRequestSeconds * 1000 };
    const query = new URLSearchParams({ editor: sealer.seal("editor", request).toString("base64url") });
    const location = `${signInOrigin}${signInPaths.signIn}?${query.toString()}`;
    return { location, secret, expiresInSeconds: editorRequestSeconds };
  }

  /** The secret in a request of the editor. Throws `invalid_token` if the editor has not sent it, or some time ago. */
  readRequest(sealed: string): string {
    const { sealer, now } = this.#options;
    const request = sealer.unseal("editor", Buffer.from(sealed, "base64url")) as EditorRequest | undefined;
    if (request === undefined || request.expiresAtMs <= now()) {
      throw invalidToken("The sign-in has taken too long: open the editor, and start again there.");
    }
    return request.secret;
  }

  /** The token of a new session, and the URL with its code. */
  createHandover(secret: string): Handover & { readonly url: string } {
    const { sealer, now, url } = this.#options;
    const code = randomBytes(32).toString("base64url");
    const accessToken = sealer.deriveAccessToken(secret, code);
    return { accessToken, untilMs: now() + handoverMs, url: `${url}/?code=${code}` };
  }

  /** Resolves with the token of a code, once; undefined: the code was used before, or is not for a browser with this secret. */
  async redeem(code: string, secret: string): Promise<string | undefined> {
    const { sealer, sessions } = this.#options;
    for (const accessToken of sealer.accessTokens(secret, code)) {
      if (await sessions.handOver(accessToken)) {
        return accessToken;
      }
    }
    return undefined;
  }

  /** Ends a session. Resolves with the URL at which the browser signs out at its issuer, if there is one. */
  async end(accessToken: string, origin: Origin): Promise<string | undefined> {
    const { sessions, tokens } = this.#options;
    const hash = sha256(accessToken);
    const token = await tokens.find(hash);
    if (token === undefined) {
      return undefined;
    }
    await tokens.remove({ hash }, revocation(token, origin));
    return token.session === undefined ? undefined : sessions.endAtProvider(token);
  }
}
