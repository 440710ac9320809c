import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { type Configuration, Provider } from "oidc-provider";

/** What a person has at a provider. */
type Person = { readonly preferred_username: string; readonly groups: readonly string[] };

/** A provider of OpenID Connect, with a server on this machine. It does not ask who signs in, but takes `visitor`. */
export type OpenIdProvider = AsyncDisposable & {
  readonly issuer: string;
  readonly jwksUrl: string;
  /** The people, by the claim `sub`. */
  readonly people: Map<string, Person>;
  /** Who signs in next. */
  visitor: string;
  givesRefreshTokens: boolean;
  /** The lifetime of access tokens. */
  lifetimeSeconds: number;
  /** Responds to a request instead of the provider, if it returns true. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** The paths of the requests, with their methods. */
  readonly requests: string[];
  /** Signs claims with the key of the provider. */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>;
};

export const clientId = "flowgate";
export const clientSecret = "a secret with & characters = of forms";
export const deviceClientId = "flowgate-cli";

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";

/** `serviceUrl` is where the provider sends browsers back to, and `audience` that of the access tokens. */
export async function openProvider(serviceUrls: readonly string[], audience: string): Promise<OpenIdProvider> {
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const scope = "openid profile groups offline_access";

  const configuration: Configuration = {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: serviceUrls.map((url) => `${url}/sign-in/callback/company`),
        post_logout_redirect_uris: serviceUrls.map((url) => `${url}/sign-in`),
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
      },
      {
        client_id: deviceClientId,
        token_endpoint_auth_method: "none",
        grant_types: [deviceGrant, "refresh_token"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: "first", alg: "RS256", use: "sig" }] },
    cookies: { keys: ["test"] },
    scopes: scope.split(" "),
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
    // In the ID token too.
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_context, accountId) => {
      const person = provider.people.get(accountId);
      return person && { accountId, claims: () => ({ sub: accountId, ...person, groups: [...person.groups] }) };
    },
    issueRefreshToken: () => provider.givesRefreshTokens,
    expiresWithSession: () => false,
    rotateRefreshToken: true,
    ttl: {
      AccessToken: () => provider.lifetimeSeconds,
      ...Object.fromEntries(
        ["DeviceCode", "Grant", "IdToken", "Interaction", "RefreshToken", "Session"].map((name) => [name, () => 3600]),
      ),
    },
    extraTokenClaims: (_context, token) => ({
      ...provider.people.get("accountId" in token ? String(token.accountId) : ""),
    }),
    loadExistingGrant: async ({ oidc }) => {
      const grant = new oidc.provider.Grant({
        clientId: oidc.client?.clientId ?? "",
        accountId: oidc.session?.accountId ?? "",
      });
      grant.addOIDCScope(scope);
      grant.addResourceScope(audience, "");
      await grant.save();
      return grant;
    },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          audience,
          scope: "",
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  };
  const oidc = new Provider(issuer, configuration);
  const callback = oidc.callback();

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    provider.requests.push(`${request.method} ${path.replace(/\?.*/, "")}`);
    if (provider.intercept?.(request, response) === true) {
      return;
    }
    if (path.startsWith("/interaction/")) {
      await oidc.interactionFinished(request, response, { login: { accountId: provider.visitor } });
    } else {
      await callback(request, response);
    }
  }

  const provider: OpenIdProvider = {
    issuer,
    jwksUrl: `${issuer}/jwks`,
    people: new Map(),
    visitor: "1",
    givesRefreshTokens: true,
    lifetimeSeconds: 300,
    intercept: undefined,
    requests: [],
    sign: async (claims) =>
      await new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "first" }).sign(privateKey),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
  return provider;
}
