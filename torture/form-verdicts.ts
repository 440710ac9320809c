import { AuthService } from "../gen/flowgate/v1/auth_pb.ts";
import { form, json } from "../test/e2e/rest.ts";
import { call, rpcProtocols } from "../test/e2e/rpc.ts";
import type { Service } from "../test/e2e/service.ts";
import { type TokenParameters, tokenParameters } from "../test/e2e/users.ts";
import { compareVerdicts } from "./deployment-verdicts.ts";

/** None of them leads to the verification of a password, since failed logins are limited. */
const cases: Readonly<Record<string, Partial<TokenParameters>>> = {
  "a client_id that does not exist": { client_id: "nobody" },
  "an empty client_id": { client_id: "" },
  "a client_id with a NUL": { client_id: "service-admin\0" },
  "a client_id in other letters": { client_id: "Service-Admin" },
  "another grant_type": { grant_type: "authorization_code" },
  "an empty grant_type": { grant_type: "" },
  "a grant_type with a space": { grant_type: "password " },
  "an unknown scope": { scope: "nothing" },
  "a scope with a tab": { scope: "*\t*" },
  "a scope with a quotation mark": { scope: '"' },
  "a scope of any Unicode": { scope: "\u{1f4a9}" },
  "an empty username": { username: "" },
  "an empty password": { password: "" },
  "__proto__ as a scope": { scope: "__proto__" },
  "constructor as a client_id": { client_id: "constructor" },
  "a valid request": {},
};

/** Requests tokens with each case, as a form, as JSON and over each RPC protocol. */
export async function compareForms(service: Service) {
  const violations: string[] = [];
  let calls = 0;
  const post = async (headers: Readonly<Record<string, string>>, body: string): Promise<string> => {
    const reply = await service.send("POST", "/auth/token", { headers, body });
    return (reply.json() as { error?: string }).error ?? "ok";
  };
  for (const [what, changes] of Object.entries(cases)) {
    const parameters = tokenParameters({ ...changes });
    const { client_id: clientId, grant_type: grantType, scope, username, password } = parameters;
    const verdicts: Record<string, string> = {
      "a form": await post(form, new URLSearchParams(parameters).toString()),
      JSON: await post(json, JSON.stringify(parameters)),
    };
    for (const protocol of ["Connect with JSON", "Connect", "gRPC", "gRPC-Web"] as const) {
      const input = { clientId, grantType, scope, username, password };
      const outcome = await call(rpcProtocols[protocol](service.url), AuthService.method.issueToken, input);
      verdicts[protocol] = "refused" in outcome ? (outcome.refused.reason ?? "no reason") : "ok";
    }
    calls += Object.keys(verdicts).length;
    violations.push(...compareVerdicts(`a token request with ${what}`, verdicts));
  }
  return { calls, violations };
}
