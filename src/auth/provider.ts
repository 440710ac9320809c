import { readFile } from "node:fs/promises";
import * as openid from "openid-client";
import type { Logger } from "pino";
import { hostOf, isLoopback } from "@flowgate/base/addresses";
import { FlowgateError } from "@flowgate/flows/errors";
import type { OpenIdClient, TokenIssuer } from "./accounts.ts";
import { invalidToken } from "./errors.ts";

/** The values with which a browser completes the sign-in that it has begun. */
export type Challenge = { readonly state: string; readonly nonce: string; readonly verifier: string };

export type ProviderTokens = {
  /** Refreshes may leave it out. Its signature is not verified. */
  readonly idToken: string | undefined;
  readonly refreshToken: string | undefined;
  /** The lifetime of the access token, which is not used. */
  readonly expiresInSeconds: number | undefined;
};

export type ProviderOptions = {
  readonly issuer: TokenIssuer & { readonly signIn: OpenIdClient };
  /** The URL to which the provider sends browsers after a sign-in. */
  readonly redirectUrl: string;
  readonly signedOutUrl: string;
  readonly log: Logger;
  readonly now: () => number;
  /** The time limit for responses of the provider. */
  readonly timeoutMs?: number | undefined;
};

/** The time between attempts to read the metadata of a provider. */
const cooldownMs = 10_000;

/** Rejects if the file of the secret can't be read. The provider need not respond yet. */
export async function openProvider(options: ProviderOptions): Promise<Provider> {
  const { name, signIn } = options.issuer;
  const { clientSecret, clientSecretFile } = signIn;
  if (clientSecretFile === undefined) {
    return new Provider(options, clientSecret);
  }
  try {
    return new Provider(options, (await readFile(clientSecretFile, "utf8")).replace(/\r?\n$/, ""));
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code;
    throw new Error(`adminAuth.issuers: clientSecretFile of ${name} can't be used: ${reason}`, { cause: error });
  }
}

/** A provider of OpenID Connect, whose client this service is. Its methods reject with `unavailable` while it can't be reached. */
export class Provider {
  readonly #options: ProviderOptions;
  readonly #secret: string | undefined;
  #configuration: Promise<openid.Configuration> | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;

  constructor(options: ProviderOptions, secret: string | undefined) {
    this.#options = options;
    this.#secret = secret;
  }

  get issuer(): ProviderOptions["issuer"] {
    return this.#options.issuer;
  }

  /** The URL of the provider at which a browser begins a sign-in (OpenID Connect Core, section 3.1.2.1, with PKCE). */
  async begin(): Promise<{ readonly location: string; readonly challenge: Challenge }> {
    const configuration = await this.#configure();
    const challenge = {
      state: openid.randomState(),
      nonce: openid.randomNonce(),
      verifier: openid.randomPKCECodeVerifier(),
    };
    const { scopes, parameters } = this.issuer.signIn;
    const url = openid.buildAuthorizationUrl(configuration, {
      ...parameters,
      redirect_uri: this.#options.redirectUrl,
      scope: scopes.join(" "),
      code_challenge: await openid.calculatePKCECodeChallenge(challenge.verifier),
      code_challenge_method: "S256",
      state: challenge.state,
      nonce: challenge.nonce,
    });
    return { location: url.href, challenge };
  }

  /** Exchanges the code in the URL that the provider has sent the browser to. Rejects with `invalid_token` if that fails. */
  async complete(url: URL, { state, nonce, verifier }: Challenge): Promise<ProviderTokens> {
    const configuration = await this.#configure();
    return this.#request(async () =>
      toTokens(
        await openid.authorizationCodeGrant(configuration, url, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        }),
      ),
    );
  }

  /** Rejects with `invalid_token` if the provider has ended the session. */
  async refresh(refreshToken: string): Promise<ProviderTokens> {
    const configuration = await this.#configure();
    return this.#request(async () => {
      try {
        return toTokens(await openid.refreshTokenGrant(configuration, refreshToken));
      } catch (error) {
        // Only this code is about the token (RFC 6749, section 5.2).
        throw error instanceof openid.ResponseBodyError && error.error !== "invalid_grant"
          ? this.#unavailable(error)
          : error;
      }
    });
  }

  /**
   * Returns the URL at which a browser signs out at the provider (RP-Initiated Logout 1.0); undefined if there is none,
   * or the provider is not reached.
   */
  async signOutUrl(idToken: string): Promise<string | undefined> {
    try {
      const configuration = await this.#configure();
      if (configuration.serverMetadata().end_session_endpoint === undefined) {
        return undefined;
      }
      const parameters = { id_token_hint: idToken, post_logout_redirect_uri: this.#options.signedOutUrl };
      return openid.buildEndSessionUrl(configuration, parameters).href;
    } catch (error) {
      if (error instanceof FlowgateError) {
        return undefined;
      }
      throw error;
    }
  }

  /** Revokes a token (RFC 7009), if the provider can do that. A failure is logged. */
  async revoke(refreshToken: string): Promise<void> {
    try {
      const configuration = await this.#configure();
      if (configuration.serverMetadata().revocation_endpoint !== undefined) {
        await this.#request(() => openid.tokenRevocation(configuration, refreshToken));
      }
    } catch (error) {
      if (!(error instanceof FlowgateError)) {
        throw error;
      }
    }
  }

  /** Reads the metadata of the provider (OpenID Connect Discovery 1.0), once. */
  #configure(): Promise<openid.Configuration> {
    const { now } = this.#options;
    if (this.#configuration === undefined) {
      if (now() - this.#failedAtMs < cooldownMs) {
        return Promise.reject(this.#unavailable());
      }
      this.#configuration = this.#discover();
      this.#configuration.catch(() => {
        this.#configuration = undefined;
        this.#failedAtMs = now();
      });
    }
    return this.#configuration;
  }

  async #discover(): Promise<openid.Configuration> {
    const { issuer, signIn, algorithms, clockSkewSeconds } = this.issuer;
    const { timeoutMs = 5_000 } = this.#options;
    const url = new URL(issuer);
    const execute = url.protocol === "http:" ? [openid.allowInsecureRequests] : [];
    const timeout = timeoutMs / 1000;
    try {
      const found = await openid.discovery(url, signIn.clientId, {}, undefined, { execute, timeout });
      const server = found.serverMetadata();
      assertConfidential(server);
      const [idTokenAlgorithm] = algorithms;
      const metadata: Partial<openid.ClientMetadata> = {
        [openid.clockTolerance]: clockSkewSeconds,
        // Of several, the one in the token is compared when its signature is verified.
        ...(algorithms.length === 1 && { id_token_signed_response_alg: idTokenAlgorithm as string }),
      };
      const authentication = this.#authenticate(server.token_endpoint_auth_methods_supported);
      const configuration = new openid.Configuration(server, signIn.clientId, metadata, authentication);
      execute.forEach((allow) => allow(configuration));
      configuration.timeout = timeout;
      return configuration;
    } catch (error) {
      throw this.#unavailable(error);
    }
  }

  /** Providers that state no methods support `client_secret_basic` (OpenID Connect Discovery 1.0, section 3). */
  #authenticate(supported: readonly string[] = ["client_secret_basic"]): openid.ClientAuth {
    if (this.#secret === undefined) {
      return openid.None();
    }
    return supported.includes("client_secret_basic")
      ? openid.ClientSecretBasic(this.#secret)
      : openid.ClientSecretPost(this.#secret);
  }

  /** Converts the errors of a request: the provider has refused it, or has not responded as it should. */
  async #request<T>(send: () => Promise<T>): Promise<T> {
    try {
      const result = await send();
      if (this.#isFailing) {
        this.#isFailing = false;
        this.#options.log.info({ issuer: this.issuer.name }, "a provider of sign-ins responds again");
      }
      return result;
    } catch (error) {
      if (error instanceof FlowgateError) {
        throw error;
      }
      if (error instanceof openid.ResponseBodyError || error instanceof openid.AuthorizationResponseError) {
        throw invalidToken(`${this.issuer.name} has refused the sign-in (${printable(error.error)}): start again.`);
      }
      if (error instanceof openid.ClientError && !/TIMEOUT|ABORT|NOT_CONFORM/.test(error.code ?? "")) {
        throw invalidToken(`The response of ${this.issuer.name} does not belong to this sign-in: start again.`);
      }
      throw this.#unavailable(error);
    }
  }

  #unavailable(cause?: unknown): FlowgateError {
    const { log } = this.#options;
    const { name } = this.issuer;
    if (cause !== undefined && !this.#isFailing) {
      this.#isFailing = true;
      log.error({ issuer: name, reason: describe(cause) }, "a provider of sign-ins does not respond as it should");
    }
    return new FlowgateError("unavailable", `The provider ${name} does not respond as it should: try again.`, {
      retryAfterMs: cooldownMs,
    });
  }
}

/** The metadata are read over a confidential connection, and must not lead to another kind. */
function assertConfidential(server: openid.ServerMetadata): void {
  const { authorization_endpoint, token_endpoint, end_session_endpoint, revocation_endpoint } = server;
  for (const endpoint of [authorization_endpoint, token_endpoint, end_session_endpoint, revocation_endpoint]) {
    const url = endpoint === undefined ? undefined : URL.parse(endpoint);
    const isLocal = url?.protocol === "http:" && isLoopback(hostOf(url));
    if (url === null || (url !== undefined && url.protocol !== "https:" && !isLocal)) {
      throw new Error("its metadata name an endpoint without TLS");
    }
  }
}

function toTokens(response: openid.TokenEndpointResponse): ProviderTokens {
  return { idToken: response.id_token, refreshToken: response.refresh_token, expiresInSeconds: response.expires_in };
}

/** The code of an error, which anyone can put into the URL of a browser. */
function printable(code: string): string {
  return /^[\x21-\x7e]{1,64}$/.test(code) ? code : "without a valid code";
}

/** Without text of the response. */
function describe(error: unknown): string {
  if (error instanceof openid.ResponseBodyError) {
    return `status ${error.status}, ${printable(error.error)}`;
  }
  const { cause = error } = error as Error;
  const { code, message } = cause as NodeJS.ErrnoException;
  return typeof code === "string" ? code : message;
}
