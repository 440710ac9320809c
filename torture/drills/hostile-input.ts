import { isDeepStrictEqual } from "node:util";
import { bearer } from "../../test/e2e/rest.ts";
import { type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Context } from "../context.ts";
import { compareVerdicts, deployOver, type Verdicts } from "../deployment-verdicts.ts";
import type { Drill } from "../drill.ts";
import { type HostileNode, hostileNodes } from "../hostile-documents.ts";
import { compareHeaders } from "../header-verdicts.ts";
import { compareForms } from "../form-verdicts.ts";

export const hostileInput: Drill = {
  name: "hostile-input",
  title: "Hostile JSON, forms and headers over every protocol",
  promise:
    "The same input gets the same verdict over every protocol, accepted input is returned unchanged, and no input causes an internal error.",
  method:
    "A generated corpus of nodes (repeated keys, deep nesting, large integers, lone surrogates, control characters, names of Object.prototype, wrong types) is deployed over each protocol, and accepted nodes are read and compared. Token requests and Authorization headers are varied over each protocol.",
  async run(context) {
    const { pick, createFolder } = context;
    const config = { runtime: { mode: "none" }, adminAuth: { users: [user("admin", "*")] } };
    await using service = await startService({ config, dataDir: await createFolder() });
    const token = await login(service, { username: "admin" });
    const deployments = await compareDeployments(service, bearer(token), context);
    const headers = await compareHeaders(service, token);
    const forms = await compareForms(service);
    const logged = service
      .log()
      .split("\n")
      .filter((line) => /"level":"(?:error|fatal)"/.test(line));
    return {
      loads: [
        { name: "deployments", count: deployments.calls, minimum: pick(250, 8_000) },
        { name: "requests with unusual headers", count: headers.calls, minimum: 30 },
        { name: "token requests", count: forms.calls, minimum: 40 },
      ],
      figures: [{ name: "deployments that were accepted", value: deployments.accepted, unit: "" }],
      violations: [
        ...deployments.violations,
        ...headers.violations,
        ...forms.violations,
        ...logged.map((line) => `the log has an error: ${line.slice(0, 200)}`),
      ],
      controls: [
        { planted: "gRPC gets another node than the others", found: await otherNode(service, bearer(token)) },
        {
          planted: "an integer is rounded",
          found: checkKept(
            { name: "", members: '"x":9007199254740993', isValue: false, kept: "9007199254740993" },
            '[{"id":"a","type":"b","x":9007199254740992}]',
          ),
        },
      ],
    };
  },
};

async function compareDeployments(
  service: Service,
  authorization: { authorization: string },
  { pick, random, progress }: Context,
) {
  const protocols = deployOver(service, authorization);
  const violations: string[] = [];
  let calls = 0;
  let accepted = 0;
  const nodes = hostileNodes(pick(66, 2_000), random);
  for (const [at, node] of nodes.entries()) {
    progress(`${at} of ${nodes.length} documents`);
    const verdicts: Record<string, string> = {};
    for (const [name, deploy] of Object.entries({ ...protocols.text, ...(node.isValue && protocols.binary) })) {
      verdicts[name] = await deploy(node);
      calls++;
      if (verdicts[name] === "ok") {
        accepted++;
        const { body } = await service.send("GET", "/flows", { headers: authorization });
        violations.push(...checkKept(node, body).map((problem) => `${node.name} over ${name}: ${problem}`));
      }
    }
    violations.push(...compareVerdicts(`${node.name} (${node.members.slice(0, 80)})`, verdicts));
  }
  return { calls, accepted, violations };
}

/** Compares an accepted node with the response to GET /flows. */
function checkKept({ members, kept }: HostileNode, body: string): string[] {
  const sent = JSON.parse(`[{"id":"a","type":"b",${members}}]`) as unknown;
  return [
    ...(isDeepStrictEqual(JSON.parse(body), sent) ? [] : [`it is returned as ${body.slice(0, 200)}`]),
    ...(kept === undefined || body.includes(kept) ? [] : [`${kept} is returned as ${body.slice(0, 200)}`]),
  ];
}

async function otherNode(service: Service, authorization: { authorization: string }): Promise<string[]> {
  const { text, binary } = deployOver(service, authorization);
  const good = { name: "", members: '"x":1', isValue: true };
  const verdicts: Verdicts = {
    "REST v1": await text["REST v1"](good),
    gRPC: await binary.gRPC({ ...good, members: '"wires":1' }),
  };
  return compareVerdicts("the control", verdicts);
}
