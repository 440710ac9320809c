/** What tests use of the package, which has no types. */
declare module "oidc-provider" {
  import type { IncomingMessage, ServerResponse } from "node:http";

  type Grant = {
    addOIDCScope(scope: string): void;
    addResourceScope(resource: string, scope: string): void;
    save(): Promise<string>;
  };

  type Context = {
    readonly oidc: {
      readonly client?: { readonly clientId: string };
      readonly session?: { readonly accountId?: string };
      readonly provider: Provider;
    };
  };

  /** The options that functions of the tests implement; all others have no functions. */
  export type Configuration = {
    readonly findAccount: (
      context: unknown,
      accountId: string,
    ) => { readonly accountId: string; claims(): object } | undefined;
    readonly issueRefreshToken: () => boolean;
    readonly expiresWithSession: () => boolean;
    readonly pkce: { required(): boolean };
    readonly ttl: Readonly<Record<string, () => number>>;
    readonly extraTokenClaims: (context: unknown, token: object) => object;
    readonly loadExistingGrant: (context: Context) => Promise<Grant>;
    readonly interactions: { url(context: unknown, interaction: { readonly uid: string }): string };
    readonly [option: string]: unknown;
  };

  export class Provider {
    constructor(issuer: string, configuration: Configuration);
    readonly Grant: new (grant: { readonly clientId: string; readonly accountId: string }) => Grant;
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>;
  }
}
