import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { go } from "../go.ts";
import { buildServer, installSuite, readFailures, startSuite } from "./suite.ts";

if (go === undefined) {
  process.stderr.write("Connect's conformance suite is skipped: Go is not installed.\n");
}

const minuteMs = 60_000;

/** The service runs them over TLS. The library alone only takes the scheme of a request from it, which `Basic` covers. */
const suitesWithoutTls = [
  "Connect Unexpected Requests",
  "Connect with GET",
  "Deadline Propagation",
  "Duplicate Metadata",
  "Errors",
  "gRPC Proto Sub-Format Requests",
  "gRPC Unexpected Requests",
  "gRPC-Web Proto Sub-Format Requests",
  "gRPC-Web Unexpected Requests",
  "Server Empty Requests",
  "Server Message Size",
  "Timeouts",
  "Unexpected Requests",
];
const withoutTls = suitesWithoutTls.flatMap((suite) => ["--skip", `${suite}/**/TLS:true/**`]);

/** In Fastify in one encoding only: the adapter differs by HTTP version, kind of call and response, not by what is in the bodies. */
const suitesInOneEncoding = [
  "Connect to HTTP Code Mapping",
  "Deadline Propagation",
  "Duplicate Metadata",
  "Errors",
  "Timeouts",
];
const otherEncodings = ["Codec:CODEC_JSON", "Compression:COMPRESSION_BR", "Compression:COMPRESSION_GZIP"];
const withoutEncodings = suitesInOneEncoding.flatMap((suite) =>
  otherEncodings.flatMap((encoding) => ["--skip", `${suite}/**/${encoding}/**`]),
);

describe.skipIf(go === undefined)("Connect's conformance suite", () => {
  test.for([
    ["the service", "flowgate", 5286, []],
    ["the gateway library on Node's servers", "node", 3180, withoutTls],
    ["the gateway library in Fastify, without TLS", "fastify", 930, withoutEncodings],
  ] as const)(
    "%s passes, apart from the known failures",
    { timeout: 15 * minuteMs },
    async ([, server, cases, skipped], { signal }) => {
      const program = await installSuite();
      const serverPath = await buildServer();
      const run = async (flags: readonly string[]) => {
        const suite = startSuite(program, serverPath, server, flags, signal);
        const [output, [status]] = await Promise.all([text(suite.stdout), once(suite, "exit")]);
        return { output, status: status as number | null, failures: readFailures(output) };
      };
      let result = await run(skipped);
      expect(result.output).toContain(`\nTotal cases: ${cases}\n`);
      expect(result.output).not.toContain("could not be run");
      // Some cases measure deadlines, and a server must start within ten seconds, which can fail on a busy machine.
      if (result.failures.length > 0) {
        result = await run(result.failures.flatMap((name) => ["--run", name]));
      }
      expect(result).toMatchObject({ failures: [], status: 0 });
    },
  );
});
