import { toolPermissions } from "./audiences.ts";
import type { Authenticator } from "./authenticator.ts";
import type { Principal } from "./caller.ts";
import { narrow } from "./permissions.ts";

/** Authenticates on the listener of Node-RED's tools, by tokens that are issued there. */
export class ToolAuthenticator {
  readonly #authenticator: Authenticator;
  /** The maximum permissions of callers. */
  readonly #permissions: readonly string[];
  /** Limited to these permissions. */
  readonly #limited = new WeakMap<Principal, Principal>();

  constructor(authenticator: Authenticator, { isReadOnly }: { readonly isReadOnly: boolean }) {
    this.#authenticator = authenticator;
    this.#permissions = isReadOnly ? toolPermissions.filter((name) => name.endsWith(".read")) : toolPermissions;
  }

  get required(): boolean {
    return this.#authenticator.required;
  }

  get acceptsTokens(): boolean {
    return this.#authenticator.acceptsTokens;
  }

  get issuesTokens(): boolean {
    return this.#authenticator.issuesTokens;
  }

  login(): ReturnType<Authenticator["login"]> {
    return this.#authenticator.login();
  }

  onReplaced(listener: () => void): Disposable {
    return this.#authenticator.onReplaced(listener);
  }

  /** The editor sends an empty scope and node-red-admin `*`: both mean all that the user may do with a tool. */
  issueToken(...[request, peer]: Parameters<Authenticator["issueToken"]>): ReturnType<Authenticator["issueToken"]> {
    const { scope, ...others } = request;
    const isRestricted = scope !== undefined && scope !== "" && scope !== "*";
    return this.#authenticator.issueToken(isRestricted ? request : others, { ...peer, audience: "tools" });
  }

  revokeToken(...parameters: Parameters<Authenticator["revokeToken"]>): Promise<void> {
    return this.#authenticator.revokeToken(...parameters);
  }

  /** As the API's, but without workload identities. */
  authenticate(authorization: string | null): Principal | Promise<Principal> {
    const principal = this.#authenticator.authenticate(authorization, undefined, "tools");
    return principal instanceof Promise ? principal.then((resolved) => this.#limit(resolved)) : this.#limit(principal);
  }

  #limit(principal: Principal): Principal {
    const known = this.#limited.get(principal);
    if (known !== undefined) {
      return known;
    }
    const limited = { ...principal, permissions: narrow(principal.permissions, this.#permissions) };
    this.#limited.set(principal, limited);
    return limited;
  }
}
