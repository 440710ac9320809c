import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AttemptLimit, LoginAttempts } from "../store/login-attempts.ts";
import { type ClientKind, clientKeyOf } from "./caller.ts";

/** A login attempt whose password may be checked. Exactly one of the methods must be called once. */
export interface Attempt {
  /** The password was correct: resets the failures of the user. */
  succeed(): Promise<void>;
  /** The password was wrong. */
  fail(): Promise<void>;
  /** The check failed with an error: the attempt does not count. */
  abandon(): Promise<void>;
}

export interface Limiter {
  /**
   * Resolves to an attempt, or to the number of seconds after which to retry. Attempts in progress count as failed, so
   * that a burst can't exceed the limits. If only attempts in progress would block a new one, it waits until they end;
   * "busy": too many wait already. `kind` is where the client connects from; defaults to the network. Without a user name, attempts
   * count for the client only.
   */
  begin(username: string | undefined, address: string, kind?: ClientKind): Promise<Attempt | number | "busy">;
}

const windowMs = 10 * 60_000;
const maxFailuresPerUser = 5;
const maxFailuresPerClient = 50;
const maxWaiting = 100;
/** Polling interval: this process is not notified when attempts of other processes end. */
const retryMs = 250;

/**
 * Called when a user or client is locked out, with the address of the last attempt. The user name is not passed on to be
 * logged, since it may be a mistyped password.
 */
export type OnLockOut = (locked: "user" | "client", address: string, kind: ClientKind) => void;

/**
 * Limits failed login attempts per user name, whether the user exists or not, and per client. Those over the Unix socket are counted
 * separately, so that no other client can block the logins of operators there.
 */
export function createLimiter(attempts: LoginAttempts, onLockOut: OnLockOut = () => {}): Limiter {
  let waiting = 0;
  let settled = Promise.withResolvers<void>();

  async function waitForOthers(): Promise<void> {
    waiting += 1;
    const timer = new AbortController();
    await Promise.race([settled.promise, delay(retryMs, undefined, timer).catch(() => {})]);
    timer.abort();
    waiting -= 1;
  }

  return {
    async begin(username, address, kind = "network") {
      const origin = kind === "network" ? "" : `${kind} `;
      const client = kind === "network" ? clientKeyOf(address) : kind;
      const ofUser: readonly AttemptLimit[] =
        username === undefined
          ? []
          : [{ key: `user ${origin}${hash("sha256", username)}`, max: maxFailuresPerUser, isReset: true }];
      const limits = [
        ...ofUser,
        { key: `client ${origin}${hash("sha256", client)}`, max: maxFailuresPerClient, isReset: false },
      ];
      for (;;) {
        const reply = await attempts.begin(limits, windowMs);
        if (reply.kind === "blocked") {
          return Math.ceil(reply.forMs / 1000);
        }
        if (reply.kind === "busy") {
          if (waiting >= maxWaiting) {
            return "busy";
          }
          await waitForOthers();
          continue;
        }
        const end = async (outcome: Parameters<typeof reply.attempt.end>[0]): Promise<void> => {
          try {
            const blocked = await reply.attempt.end(outcome);
            for (const key of outcome === "failed" ? blocked : []) {
              onLockOut(key === ofUser[0]?.key ? "user" : "client", address, kind);
            }
          } finally {
            settled.resolve();
            settled = Promise.withResolvers();
          }
        };
        return { succeed: () => end("succeeded"), fail: () => end("failed"), abandon: () => end("abandoned") };
      }
    },
  };
}
