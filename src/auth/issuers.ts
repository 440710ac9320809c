import { hash } from "node:crypto";
import { type JWTPayload, type JWTVerifyGetKey, decodeJwt, errors, jwtVerify } from "jose";
import type { Logger } from "pino";
import type { ClaimRule, TokenIssuer } from "./accounts.ts";
import type { Principal } from "./caller.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { invalidToken } from "./errors.ts";
import { type KeySet, type KeySource, openKeySet } from "./key-set.ts";

type Issuer = { readonly configured: TokenIssuer; readonly keys: KeySet };

type Verified = {
  readonly principal: Principal;
  readonly expiresAtMs: number;
  readonly keys: KeySet;
  /** The version of the keys with which the token was verified. */
  readonly version: number;
};

export type IssuersOptions = {
  readonly log: Logger;
  readonly now?: () => number;
  /** The time limit for a provider's response with its keys. */
  readonly timeoutMs?: number;
};

/** Each takes about 500 bytes. */
const maxVerified = 10_000;

/** Authenticates callers by JWTs (RFC 7519) of the configured issuers. */
export class Issuers implements Disposable {
  readonly #options: IssuersOptions;
  readonly #now: () => number;
  #issuers: ReadonlyMap<string, Issuer> = new Map();
  /** By the location of the keys, which stay in use when the configuration changes. */
  #keySets: ReadonlyMap<string, KeySet> = new Map();
  /** By the SHA-256 of the token. When it is full, the oldest entry is removed. */
  readonly #verified = new Map<string, Verified>();

  constructor(options: IssuersOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Replaces the issuers for all later calls. If the keys of one can't be used, it rejects and nothing changes. */
  async replace(configured: readonly TokenIssuer[]): Promise<void> {
    using opened = new DisposableStack();
    const issuers = new Map<string, Issuer>();
    const keySets = new Map<string, KeySet>();
    for (const issuer of configured) {
      const { name, jwksUrl, jwksFile = "" } = issuer;
      const source: KeySource = jwksUrl === undefined ? { file: jwksFile } : { url: jwksUrl };
      const location = JSON.stringify(source);
      const keys =
        keySets.get(location) ??
        this.#keySets.get(location) ??
        opened.use(await openKeySet({ name, source, ...this.#options, now: this.#now }));
      keySets.set(location, keys);
      issuers.set(issuer.issuer, { configured: issuer, keys });
    }
    opened.move();
    const unused = new Set(this.#keySets.values()).difference(new Set(keySets.values()));
    this.#issuers = issuers;
    this.#keySets = keySets;
    this.#verified.clear();
    unused.forEach((keys) => keys[Symbol.dispose]());
  }

  /**
   * Returns the caller with this token. Throws or rejects with `invalid_token`, and with `unavailable` while its issuer's keys can't be
   * read. Returns a promise only if the token has to be verified.
   */
  authenticate(token: string): Principal | Promise<Principal> {
    const digest = hash("sha256", token, "latin1");
    const known = this.#verified.get(digest);
    return known !== undefined && known.expiresAtMs > this.#now() && known.version === known.keys.version
      ? known.principal
      : this.#verify(token, digest);
  }

  /** Resolves with the claims of an ID token that the issuer with this name has issued for this client. Rejects as `authenticate`. */
  async verifyIdToken(token: string, name: string, clientId: string): Promise<JWTPayload> {
    const { configured, keys } = this.#named(name);
    return verify(token, { ...configured, audience: clientId }, keys.find, this.#now());
  }

  /** The caller with these claims of the issuer with this name. Throws `invalid_token` if there is none, and `noRule` if no rule applies to it. */
  principalOf(name: string, claims: JWTPayload, noRule?: (username: string) => FlowgateError): Principal {
    return toPrincipal(claims, this.#named(name).configured, noRule);
  }

  [Symbol.dispose](): void {
    this.#keySets.forEach((keys) => keys[Symbol.dispose]());
  }

  #named(name: string): Issuer {
    const issuer = this.#issuers.values().find(({ configured }) => configured.name === name);
    if (issuer === undefined) {
      throw invalidToken(`The issuer ${name} is not accepted any more.`);
    }
    return issuer;
  }

  async #verify(token: string, digest: string): Promise<Principal> {
    const { iss, exp } = readClaims(token);
    const issuer = this.#issuers.get(iss ?? "");
    if (issuer === undefined) {
      throw invalidToken("The access token is of an issuer that this service does not accept.");
    }
    const { configured, keys } = issuer;
    // Also while the keys can't be read, since calls that stay open end at the expiry.
    if (typeof exp === "number" && exp + configured.clockSkewSeconds <= Math.floor(this.#now() / 1000)) {
      throw invalidToken(`The access token ${refusals["ERR_JWT_EXPIRED"]}.`);
    }
    const { version } = keys;
    const payload = await verify(token, configured, keys.find, this.#now());
    const principal = toPrincipal(payload, configured);
    // The configuration may have changed meanwhile.
    if (this.#issuers.get(configured.issuer) === issuer) {
      this.#verified.delete(digest);
      this.#verified.set(digest, {
        principal,
        expiresAtMs: ((payload.exp ?? 0) + configured.clockSkewSeconds) * 1000,
        keys,
        version,
      });
      const [oldest] = this.#verified.keys();
      if (this.#verified.size > maxVerified && oldest !== undefined) {
        this.#verified.delete(oldest);
      }
    }
    return principal;
  }
}

/** Not verified. */
function readClaims(token: string): Pick<JWTPayload, "iss" | "exp"> {
  try {
    return decodeJwt(token);
  } catch (error) {
    throw toRefusal(error);
  }
}

async function verify(
  token: string,
  { issuer, audience, algorithms, clockSkewSeconds }: TokenIssuer,
  find: JWTVerifyGetKey,
  nowMs: number,
): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, find, {
      issuer,
      audience,
      algorithms: [...algorithms],
      clockTolerance: clockSkewSeconds,
      requiredClaims: ["exp"],
      currentDate: new Date(nowMs),
    });
    return payload;
  } catch (error) {
    throw toRefusal(error);
  }
}

const refusals: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: "has expired: get another one from its issuer",
  ERR_JOSE_ALG_NOT_ALLOWED: "is not signed with an algorithm that is configured for its issuer",
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: "has an invalid signature",
  ERR_JWKS_NO_MATCHING_KEY: "is signed with a key that its issuer does not publish",
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: "does not name its key (kid), and its issuer has several",
};

/** Converts the errors of jose. */
function toRefusal(error: unknown): unknown {
  if (error instanceof errors.JWTClaimValidationFailed) {
    return invalidToken(
      `The access token is not valid here: its claim ${error.claim} is missing or not the expected one.`,
    );
  }
  if (error instanceof errors.JOSEError) {
    return invalidToken(`The access token ${refusals[error.code] ?? "is malformed"}.`);
  }
  // Errors of published keys that are malformed or too short have other classes. Anyone can send a token that names such a key.
  return error instanceof FlowgateError
    ? error
    : invalidToken("The access token is signed with a key of its issuer that can't be used.");
}

function toPrincipal(
  claims: JWTPayload,
  { name, usernameClaim, rules }: TokenIssuer,
  noRule: (username: string) => FlowgateError = tokenWithoutRule,
): Principal {
  const { [usernameClaim]: claim, jti } = claims;
  if (!isName(claim)) {
    throw invalidToken(
      `The claim ${usernameClaim} of the access token must be a printable name of at most 500 characters.`,
    );
  }
  const username = `${name}:${claim}`;
  const matching = rules.filter((rule) => matches(claims, rule));
  // Many issuers, such as those of CI services, issue tokens for any audience to everyone.
  if (matching.length === 0) {
    throw noRule(username);
  }
  return {
    username,
    token: isName(jti) ? { id: jti, name: undefined } : undefined,
    permissions: [...new Set(matching.flatMap(({ permissions }) => permissions))],
  };
}

function tokenWithoutRule(username: string): FlowgateError {
  return invalidToken(
    `The access token is valid, but ${username} has no access: no rule of its issuer applies. Ask an administrator of this service for one.`,
  );
}

/** Printable, since names appear in logs and terminals. */
function isName(value: unknown): value is string {
  return typeof value === "string" && /^[^\p{C}\p{Zl}\p{Zp}]{1,500}$/u.test(value);
}

function matches(claims: JWTPayload, rule: ClaimRule): boolean {
  return Object.entries(rule.claims).every(([claim, expected]) => {
    const value: unknown = claims[claim];
    return (Array.isArray(value) ? value : [value]).some((item) => isPlain(item) && String(item) === expected);
  });
}

function isPlain(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}
