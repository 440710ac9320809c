import { gzipSync } from "node:zlib";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { mainPath } from "../cli/run-cli.ts";
import { json } from "./rest.ts";
import { type Service, startService } from "./service.ts";

// Compressed bodies of 16 KB that hold 16 MB must not end the process. The heap is smaller than what one of them becomes.

const megabytes16 = 16 * 1024 * 1024;

/** A flow of objects that take 20 times as much memory as their text. */
const objects = gzipSync(`{"nodes":[${"{},".repeat((megabytes16 - 100) / 3).slice(0, -1)}]}`);

/** Flows that are deployed: an empty array, and whitespace. */
const whitespace = gzipSync(`[]${" ".repeat(megabytes16 - 2)}`);

const start = (limits: object) =>
  startService({
    command: [process.execPath, "--max-old-space-size=160", mainPath],
    config: { runtime: { mode: "none" }, limits },
  });

const post = (service: Service, path: string, body: Buffer) =>
  service.send("POST", path, { headers: { ...json, "content-encoding": "gzip" }, body }).then(
    ({ status }) => status,
    () => "disconnected",
  );

test("a flood of compressed bodies is rejected in part, and corrections get in meanwhile", async () => {
  await using service = await start({ memoryWaitMs: 100 });
  const flood = Promise.all(
    Array.from({ length: 60 }, (_, index) =>
      index % 2 === 0 ? post(service, "/flow", objects) : post(service, "/flows", whitespace),
    ),
  );
  const client = createClient(FlowsService, createGrpcTransport({ baseUrl: service.url }));
  for (let round = 0; round < 10; round++) {
    const flows = [{ id: "a", type: "tab", label: "x".repeat(30_000) }];
    expect((await client.setFlows({ flows })).rev).not.toBe("");
    expect((await service.send("GET", "/healthz")).status).toBe(200);
  }
  const statuses = await flood;
  expect(new Set(statuses).difference(new Set([204, 413, 503]))).toEqual(new Set());
  expect(statuses).toContain(503);
  // Later ones are served as before.
  expect([await post(service, "/flows", whitespace), await post(service, "/flow", objects)]).toEqual([204, 413]);
});

test("without the limit, one of these bodies ends the process", async () => {
  await using service = await start({ memoryMb: 1_000_000 });
  expect(await post(service, "/flow", objects)).toBe("disconnected");
  expect(await service.stop()).not.toBe(0);
});
