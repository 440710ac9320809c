// Runs Connect's conformance suite: `npm run conformance -- [server] [flags of connectconformance]`, for example
// `npm run conformance -- node --run 'Timeouts/**' --trace`. The servers are `flowgate` (default), `node` and `fastify` (the gateway
// library alone), and `stock` (Connect's own adapter, to compare with).
import { once } from "node:events";
import { go } from "../go.ts";
import { buildServer, installSuite, readFailures, serversUnderTest, startSuite } from "./suite.ts";

const args = process.argv.slice(2);
const named = serversUnderTest.find((name) => name === args[0]);
const server = named ?? "flowgate";
const flags = named === undefined ? args : args.slice(1);

if (go === undefined) {
  throw new Error("Connect's conformance suite needs Go: https://go.dev/dl");
}
const program = await installSuite();

const end = new AbortController();
process.once("SIGINT", () => end.abort());
process.once("SIGTERM", () => end.abort());
const suite = startSuite(
  program,
  await buildServer(),
  server,
  flags,
  AbortSignal.any([end.signal, AbortSignal.timeout(600_000)]),
);
const exited = once(suite, "exit");
let output = "";
for await (const chunk of suite.stdout.setEncoding("utf8")) {
  process.stdout.write(chunk);
  output += chunk;
}
// Run again, since they are listed as known failures.
process.stdout.write(
  readFailures(output)
    .map((name) => `\nFAILED: ${name}`)
    .join(""),
);
process.stdout.write("\n");
const [status] = await exited;
process.exitCode = status === 0 ? 0 : 1;
