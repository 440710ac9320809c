import { setImmediate } from "node:timers/promises";
import type { HandlerContext } from "@connectrpc/connect";
import { createRerun } from "@flowgate/base/rerun";
import { FlowgateError } from "@flowgate/flows/errors";
import type { TokenStore } from "../store/token-store.ts";
import type { Authenticator } from "./authenticator.ts";
import { type Principal, peerKey, principalKey } from "./caller.ts";
import { insufficientScope } from "./errors.ts";
import { allows } from "./permissions.ts";

type OpenCallsOptions = {
  readonly authenticator: Pick<Authenticator, "authenticate" | "onReplaced" | "required">;
  readonly tokens: Pick<TokenStore, "onRevoked">;
  readonly now?: () => number;
};

type Credentials = { readonly authorization: string | null; readonly session: string | undefined };

type OpenCall = {
  /** Permissions that the caller must keep. */
  readonly permissions: readonly string[];
  readonly end: (error: FlowgateError) => void;
};

type Calls = {
  readonly credentials: Credentials;
  readonly open: Set<OpenCall>;
  /** Since when these can't be checked. */
  uncheckedSinceMs?: number | undefined;
};

/** The maximum delay before an expired token is noticed. */
const expiryMs = 20_000;
/**
 * The time for which calls stay open that can't be checked because the store or the session's issuer does not respond.
 */
const maxUncheckedMs = 10 * 60_000;

/**
 * The gate checks a call when it begins. Calls that stay open are ended by this when their token is revoked or expires, or when the
 * user is removed or loses a permission, or can't be checked for ten minutes. Workloads keep theirs, since their rules are read at the start only.
 */
export class OpenCalls implements Disposable {
  readonly #options: OpenCallsOptions;
  /** By their credentials. */
  readonly #calls = new Map<string, Calls>();
  readonly #now: () => number;
  readonly #subscriptions = new DisposableStack();

  constructor(options: OpenCallsOptions) {
    this.#options = options;
    const { authenticator, tokens, now = Date.now } = options;
    this.#now = now;
    const check = createRerun(() => this.#checkAll());
    const timer = setInterval(() => void check(), expiryMs).unref();
    this.#subscriptions.defer(() => clearInterval(timer));
    this.#subscriptions.use(authenticator.onReplaced(() => void check()));
    this.#subscriptions.use(tokens.onRevoked(() => void check()));
  }

  /** Disposing ends the observation. */
  add(context: Pick<HandlerContext, "values" | "requestHeader">, call: OpenCall): Disposable {
    const { values } = context;
    // The headers are created when they are read, and then kept for as long as the call is open.
    const peer = values.get(peerKey);
    const { authorization = context.requestHeader.get("authorization") } = peer;
    const session = authorization === null ? peer.session?.value : undefined;
    const isWorkload =
      authorization === null && session === undefined && values.get(principalKey).username !== undefined;
    if (!this.#options.authenticator.required || isWorkload) {
      return { [Symbol.dispose]() {} };
    }
    const key = JSON.stringify([authorization, session]);
    const calls: Calls = this.#calls.get(key) ?? { credentials: { authorization, session }, open: new Set() };
    this.#calls.set(key, calls);
    calls.open.add(call);
    return {
      [Symbol.dispose]: () => {
        calls.open.delete(call);
        if (calls.open.size === 0 && this.#calls.get(key) === calls) {
          this.#calls.delete(key);
        }
      },
    };
  }

  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
  }

  async #checkAll(): Promise<void> {
    // After the other listeners, and once for several revocations.
    await setImmediate();
    await Promise.all(Array.from(this.#calls.values(), (calls) => this.#checkCalls(calls)));
  }

  async #checkCalls(calls: Calls): Promise<void> {
    const { authorization, session } = calls.credentials;
    let principal: Principal;
    try {
      principal = await this.#options.authenticator.authenticate(authorization, undefined, "api", session);
    } catch (error) {
      calls.uncheckedSinceMs ??= this.#now();
      // A store that can't be read says nothing about the token: it is checked again.
      const isOver = this.#now() - calls.uncheckedSinceMs > maxUncheckedMs;
      if (error instanceof FlowgateError && (error.reason === "invalid_token" || isOver)) {
        calls.open.forEach(({ end }) => end(withoutChallenge(error)));
      }
      return;
    }
    calls.uncheckedSinceMs = undefined;
    for (const { permissions, end } of calls.open) {
      const lost = permissions.find((permission) => !allows(principal.permissions, permission));
      if (lost !== undefined) {
        end(withoutChallenge(insufficientScope(lost, (authorization ?? session) !== undefined)));
      }
    }
  }
}

/** A challenge would be a header of the response, which has begun. */
function withoutChallenge({ reason, message }: FlowgateError): FlowgateError {
  return new FlowgateError(reason, message);
}
