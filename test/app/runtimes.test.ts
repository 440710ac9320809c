import { expect, test } from "vitest";
import { flowsCanReachApi } from "../../src/app/runtimes.ts";
import { type OptionsInput, parseOptions } from "../../src/options/parse.ts";

const port = 1881;

test.each<[OptionsInput["runtime"], boolean]>([
  [{}, false],
  [{ network: { allow: ["*"] } }, false],
  [{ network: { allow: ["127.0.0.1", "*:1880"] } }, false],
  [{ network: { deny: ["*:1881"] } }, false],
  [{ network: { allow: ["*:1881"] } }, true],
  [{ network: { allow: ["10.0.0.0/8", "[::1]:1881"] } }, true],
  [{ allow: { childProcess: true } }, true],
  [{ allow: { worker: true } }, true],
  [{ allow: { nativeAddons: true } }, true],
  [{ allow: { fileSystemRead: ["/tmp"], env: ["HOME"] } }, false],
])("flows with the options %j can reach the API: %s", (runtime, canReach) => {
  expect(flowsCanReachApi(parseOptions({ port, runtime }))).toBe(canReach);
});
