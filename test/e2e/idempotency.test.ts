import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRandom } from "../random.ts";
import { tab } from "./flow-builders.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";

/** `FLOWGATE_IDEMPOTENCY_DEPLOYMENTS=500` takes eight times as long. */
const deployments = Number(process.env["FLOWGATE_IDEMPOTENCY_DEPLOYMENTS"] ?? 60);
const clients = 8;
/** The deployments before which the service is killed. */
const killBefore: ReadonlySet<number> = new Set([1, 2].map((third) => Math.floor((third * deployments) / 3)));

/** Sends a request and returns the status of its response; undefined if the connection was cut off before. */
async function attempt(
  port: number,
  request: Buffer,
  cutAfter: { bytes: number; ms: number },
): Promise<string | undefined> {
  const socket = connect(port, "127.0.0.1");
  // A killed service resets its connections.
  socket.on("error", () => {});
  const closed = new Promise((resolve) => socket.on("close", resolve));
  let response = "";
  socket.on("data", (chunk: Buffer) => (response += chunk.toString()));
  socket.write(request.subarray(0, cutAfter.bytes));
  if (cutAfter.ms !== Infinity) {
    const timer = setTimeout(() => socket.destroy(), cutAfter.ms);
    await closed;
    clearTimeout(timer);
  } else {
    await closed;
  }
  return /^HTTP\/1\.1 (\d{3}) .*\r\n\r\n/s.exec(response)?.[1];
}

function toRequest(index: number): Buffer {
  const body = JSON.stringify([{ ...tab(`t${index}`), disabled: true, info: "x".repeat(200) }]);
  return Buffer.from(
    [
      "POST /flows HTTP/1.1",
      "Host: localhost",
      "Connection: close",
      "Content-Type: application/json",
      `Idempotency-Key: deployment ${index}`,
      `Service-Deployment-Message: ${index}`,
      `Content-Length: ${body.length}`,
      "",
      body,
    ].join("\r\n"),
  );
}

test("requests that are cut off and repeated with an idempotency key make one revision each, across kills", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-e2e-idempotency-"));
  const random = createRandom(1);
  let service: Service = await startService({ config: withoutRuntime, dataDir });
  let next = 0;
  let cut = 0;

  async function deployUntilAnswered(index: number): Promise<void> {
    const request = toRequest(index);
    for (;;) {
      const isCut = random() < 0.5;
      const cutAfter = isCut
        ? { bytes: random() < 0.2 ? Math.floor(random() * request.length) : request.length, ms: random() * 5 }
        : { bytes: request.length, ms: Infinity };
      const status = await attempt(service.port, request, cutAfter);
      if (status === "204") {
        return;
      }
      if (status !== undefined) {
        throw new Error(`deployment ${index} was answered ${status}`);
      }
      cut += 1;
      await delay(5);
    }
  }

  async function run(): Promise<void> {
    for (let index = next++; index < deployments; index = next++) {
      if (killBefore.has(index)) {
        await service.kill9();
        service = await startService({ config: withoutRuntime, dataDir });
      }
      await deployUntilAnswered(index);
    }
  }

  try {
    await Promise.all(Array.from({ length: clients }, run));
    const reply = await service.send("GET", "/revisions?pageSize=1000");
    const { revisions } = reply.json() as { revisions: { message?: string; parent?: string; rev: string }[] };
    expect(cut).toBeGreaterThan(deployments / 4);
    const messages = revisions.map(({ message }) => message).filter((message) => message !== undefined);
    expect(messages.map(Number).toSorted((one, other) => one - other)).toEqual(
      Array.from({ length: deployments }, (_, index) => index),
    );
    // The revision that a new store contains has no message.
    expect(revisions).toHaveLength(deployments + 1);
    expect(revisions.slice(0, -1).map(({ parent }) => parent)).toEqual(revisions.slice(1).map(({ rev }) => rev));
  } finally {
    await service[Symbol.asyncDispose]();
    await rm(dataDir, { recursive: true });
  }
});
