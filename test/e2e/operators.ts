import { afterAll, beforeAll, expect } from "vitest";
import { deploy } from "./deploy.ts";
import { installReporter, type Node } from "./flow-builders.ts";
import { bearer, json, type Reply } from "./rest.ts";
import { type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

export type Json = { [key: string]: unknown };

type Sent = { readonly as?: string; readonly headers?: Record<string, string>; readonly body?: string };

/** Starts a service with several users for the tests of the file, and returns calls of these users. */
export function useOperators() {
  let service: Service;
  const tokens: Record<string, Record<string, string>> = {};

  beforeAll(async () => {
    const users = [user("ada", "*"), user("bob", "*"), user("reader", "revisions.read"), user("writer", "flows.write")];
    service = await startService({
      config: {
        adminAuth: { type: "credentials", users },
        runtime: {
          freshProcess: "never",
          deadlineMs: 8_000,
          restart: { backoffMs: 50, maxBackoffMs: 100 },
          safeMode: { exits: 2 },
        },
      },
      prepare: installReporter,
    });
    for (const { username, permissions } of users) {
      tokens[username] = bearer(await login(service, { username, scope: String(permissions) }));
    }
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  async function send(method: string, path: string, { as = "ada", headers = {}, body }: Sent = {}): Promise<Reply> {
    return service.send(method, path, { headers: { ...tokens[as], ...json, ...headers }, body: body ?? "" });
  }

  async function get(path: string): Promise<Json> {
    const reply = await send("GET", path);
    expect({ status: reply.status, body: reply.body }).toMatchObject({ status: 200 });
    return reply.json() as Json;
  }

  const activeFlows = async (): Promise<unknown> => (await send("GET", "/flows")).json();
  const newest = async (): Promise<Json> => ((await get("/revisions?pageSize=1"))["revisions"] as Json[])[0] ?? {};

  /** What each operation says that reports whether the active flows run. */
  async function verdicts(): Promise<Json> {
    const [{ runtime }, plan, { outcome, outcomeMessage }] = await Promise.all([
      get("/settings") as Promise<{ runtime: Json }>,
      send("POST", "/flows:plan", { body: JSON.stringify(await activeFlows()) }),
      newest(),
    ]);
    const { activeOutcome, activeOutcomeMessage } = plan.json() as Json;
    return {
      status: [runtime["state"], runtime["message"]],
      history: [outcome, outcomeMessage],
      plan: [activeOutcome, activeOutcomeMessage],
    };
  }

  return {
    /** By user name: the headers of a call with the user's token. */
    tokens,
    running: (): Service => service,
    send,
    get,
    deployAs: (username: string, flows: readonly Node[], headers: Record<string, string> = {}, type?: string) =>
      deploy(service, { flows }, type, { ...tokens[username], ...headers }),
    activeFlows,
    revision: (rev: string): Promise<Json> => get(`/revisions/${rev}`),
    newest,
    verdicts,
  };
}
