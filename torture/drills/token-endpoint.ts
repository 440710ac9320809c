import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { send } from "../../test/e2e/rest.ts";
import { startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Drill } from "../drill.ts";
import { checkTokenCase, type TokenClient, tokenCases } from "../token-cases.ts";

export const tokenEndpoint: Drill = {
  name: "token-endpoint",
  title: "Tokens by the letter of the RFCs",
  promise: "Tokens are issued, presented and revoked as RFC 6749, RFC 6750 and RFC 7009 require.",
  method:
    "Each requirement that applies is a case with its clause in [token-cases.ts](../torture/token-cases.ts): a request, and what its " +
    "response must be. The control is a server that answers every request with `200` and `{}`: each case must fail with it.",
  limits: "A missing permission is answered with 401 instead of 403, since the specification of the API has no 403.",
  async run({ createFolder }) {
    const config = { runtime: { mode: "none" }, adminAuth: { users: [user("admin", "*"), user("reader", "read")] } };
    await using service = await startService({ config, dataDir: await createFolder() });
    const violations = await checkAll({
      send: (...parameters) => service.send(...parameters),
      token: (username) => login(service, { username, scope: username === "admin" ? "*" : "read" }),
    });
    await using fake = await openFake();
    const found = await checkAll({
      send: (...parameters) => send(fake.url, ...parameters),
      token: async () => "token",
    });
    const isEachFound = found.length === tokenCases.length;
    return {
      loads: [{ name: "cases", count: tokenCases.length, minimum: 40 }],
      figures: [{ name: "clauses", value: new Set(tokenCases.map(({ clause }) => clause)).size, unit: "" }],
      violations,
      controls: [{ planted: "a server that answers every request with 200 and {}", found: isEachFound ? found : [] }],
    };
  },
};

async function checkAll(client: TokenClient): Promise<string[]> {
  const found: string[] = [];
  for (const tokenCase of tokenCases) {
    const problem = checkTokenCase(tokenCase, await tokenCase.request(client));
    found.push(...(problem === undefined ? [] : [problem]));
  }
  return found;
}

async function openFake(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((_request, response) => void response.end("{}")).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
