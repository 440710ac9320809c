import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { passwordOf } from "./users.ts";

const python = "/usr/bin/python3";
const script = fileURLToPath(new URL("../fixtures/e2e/grpc_client.py", import.meta.url));

export const hasGrpcio =
  existsSync(python) && spawnSync(python, ["-c", "import grpc, google.protobuf"], { stdio: "ignore" }).status === 0;

/** A client with Python's grpcio: uses reflection, logs in as admin, deploys, reads, is rejected, and watches. */
export type GrpcioClient = {
  /** Resolves when it watches the service, which should then be stopped. */
  untilWatching(): Promise<void>;
  /** Its output and errors. */
  ended(): Promise<{ steps: Record<string, unknown>[]; complaints: string }>;
};

/** `target` is a host and port without TLS. */
export function startGrpcio(target: string): GrpcioClient {
  const child = spawn(python, [script, target, "admin", passwordOf("admin")], { stdio: ["ignore", "pipe", "pipe"] });
  const steps: Record<string, unknown>[] = [];
  const complaints = text(child.stderr);
  const watching = Promise.withResolvers<void>();
  const lines = createInterface(child.stdout);
  lines.on("line", (line) => {
    const step = JSON.parse(line) as Record<string, unknown>;
    steps.push(step);
    if (step["step"] === "watching") {
      watching.resolve();
    }
  });
  // It exits early if something fails.
  void complaints.then(() => watching.resolve());
  return { untilWatching: () => watching.promise, ended: async () => ({ complaints: await complaints, steps }) };
}

/** Its expected output if the service stops during the watch. */
export const grpcioSteps = [
  { step: "login", token_type: "Bearer" },
  {
    step: "read",
    same_rev: true,
    flows: [{ id: "t", type: "tab", label: "by python", properties: { ä: [null, "", { deep: true }] } }],
  },
  {
    step: "stale",
    code: "ABORTED",
    message: expect.stringContaining("rev: the active revision is") as unknown,
    details: [
      { reason: "version_mismatch", domain: "flowgate" },
      expect.objectContaining({ code: "DEPLOYMENT_ERROR_REASON_VERSION_MISMATCH" }) as unknown,
    ],
  },
  {
    step: "unauthenticated",
    code: "UNAUTHENTICATED",
    message: expect.stringContaining("access token") as unknown,
    details: [{ reason: "no_token", domain: "flowgate" }, { challenge: 'Bearer realm="flowgate"' }],
  },
  { step: "deadline", code: "DEADLINE_EXCEEDED", message: expect.any(String) as unknown, details: [] },
  { step: "watching" },
  {
    step: "watched",
    code: "UNAVAILABLE",
    message: "the service is closing",
    details: [{ reason: "unavailable", domain: "flowgate" }],
    statuses: ["SERVING", "NOT_SERVING"],
  },
];
