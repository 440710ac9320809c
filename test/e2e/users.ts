import bcrypt from "bcryptjs";
import type { Service } from "./service.ts";
import { form } from "./rest.ts";

/** A hash that is cheap to verify; costs have their own tests. */
export function user(username: string, permissions: string | string[], password = passwordOf(username)) {
  return { username, permissions, password: bcrypt.hashSync(password, 4) };
}

export function passwordOf(username: string): string {
  return `the password of ${username}`;
}

export type TokenParameters = Record<"client_id" | "grant_type" | "scope" | "username" | "password", string>;

export function tokenParameters(changes: Partial<TokenParameters> = {}): TokenParameters {
  const username = changes.username ?? "admin";
  return {
    client_id: "service-admin",
    grant_type: "password",
    scope: "*",
    username,
    password: passwordOf(username),
    ...changes,
  };
}

export async function login(service: Service, changes: Partial<TokenParameters>): Promise<string> {
  const body = new URLSearchParams(tokenParameters(changes)).toString();
  const reply = await service.send("POST", "/auth/token", { headers: form, body });
  if (reply.status !== 200) {
    throw new Error(`no token for ${changes.username}: ${reply.body}`);
  }
  return (reply.json() as { access_token: string }).access_token;
}
