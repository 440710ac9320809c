import { once } from "node:events";
import { type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type CryptoKey, type JWK, SignJWT, exportJWK, generateKeyPair } from "jose";
import type { TokenIssuer } from "../../src/auth/accounts.ts";

export type SigningKey = { readonly kid: string; readonly privateKey: CryptoKey; readonly publicJwk: JWK };

export async function createKey(kid: string, alg = "ES256"): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } };
}

/** Claims of a token; undefined ones are omitted. */
export type Claims = Readonly<Record<string, unknown>>;

/** An issuer of JWTs, with a server for its keys. */
export type LocalIssuer = AsyncDisposable & {
  readonly jwksUrl: string;
  /** The published keys. */
  keys: readonly SigningKey[];
  /** How often the keys were requested. */
  requests(): number;
  /** Replaces the response of the server; undefined: the keys. */
  respond: ((response: ServerResponse) => void) | undefined;
  /** Signs a token with the first key, or another one. Its lifetime is a minute from `nowMs`. */
  sign(claims?: Claims, options?: { readonly key?: SigningKey; readonly nowMs?: number }): Promise<string>;
  /** Ends the server. */
  stop(): Promise<void>;
};

export const issuerUrl = "https://issuer.example";
export const audience = "https://flows.example";

export async function openIssuer(port = 0, keys?: readonly SigningKey[]): Promise<LocalIssuer> {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    if (issuer.respond === undefined) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ keys: issuer.keys.map(({ publicJwk }) => publicJwk) }));
    } else {
      issuer.respond(response);
    }
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const issuer: LocalIssuer = {
    jwksUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
    keys: keys ?? [await createKey("first")],
    respond: undefined,
    requests: () => requests,
    async sign(claims = {}, { key = issuer.keys[0] as SigningKey, nowMs = Date.now() } = {}) {
      const nowSeconds = Math.floor(nowMs / 1000);
      const defaults = { iss: issuerUrl, aud: audience, sub: "someone", iat: nowSeconds, exp: nowSeconds + 60 };
      return await new SignJWT({ ...defaults, ...claims })
        .setProtectedHeader({ alg: key.publicJwk.alg ?? "", kid: key.kid })
        .sign(key.privateKey);
    },
    async stop() {
      server.close();
      server.closeAllConnections();
    },
    [Symbol.asyncDispose]: () => issuer.stop(),
  };
  return issuer;
}

/** The configuration of such an issuer; everyone may read. */
export function configure(overrides: Partial<TokenIssuer> & Pick<TokenIssuer, "jwksUrl" | "jwksFile">): TokenIssuer {
  return {
    name: "local",
    issuer: issuerUrl,
    audience,
    algorithms: ["ES256", "RS256"],
    usernameClaim: "sub",
    clockSkewSeconds: 30,
    rules: [{ claims: { iss: issuerUrl }, permissions: ["read"] }],
    ...overrides,
  };
}
