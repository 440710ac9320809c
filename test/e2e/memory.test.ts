import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { mainPath } from "../cli/run-cli.ts";
import { json } from "./rest.ts";
import { startService, withoutRuntime } from "./service.ts";

// Compressed bodies of 16 KB that hold 16 MB must not end the process. The heap is smaller than what one of them becomes. Many of them are
// sent by the drill "memory", whose control is a service without this limit.

const megabytes16 = 16 * 1024 * 1024;

/** A flow of objects that take 20 times as much memory as their text. */
const objects = gzipSync(`{"nodes":[${"{},".repeat((megabytes16 - 100) / 3).slice(0, -1)}]}`);

/** Flows that are deployed: an empty array, and whitespace. */
const whitespace = gzipSync(`[]${" ".repeat(megabytes16 - 2)}`);

test("a compressed body that would use up the memory is rejected, and one that would not is served", async () => {
  await using service = await startService({
    command: [process.execPath, "--max-old-space-size=160", mainPath],
    config: withoutRuntime,
  });
  const post = async (path: string, body: Buffer) =>
    (await service.send("POST", path, { headers: { ...json, "content-encoding": "gzip" }, body })).status;
  expect([await post("/flow", objects), await post("/flows", whitespace)]).toEqual([413, 204]);
  expect(await service.stop()).toBe(0);
});
