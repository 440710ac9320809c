import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installReporter } from "./flow-builders.ts";
import { createSecrets } from "./secret-canaries.ts";
import { configWithSecrets, exerciseSecrets } from "./secret-exercise.ts";
import { type Service, startService } from "./service.ts";

// A service at the most verbose log level gets secrets in every place intended for one, and in other
// places. None of them may appear in its output.

const secrets = createSecrets();
let service: Service;
let responses: readonly string[];

beforeAll(async () => {
  service = await startService({ config: configWithSecrets(secrets), prepare: installReporter });
  responses = await exerciseSecrets(service, secrets);
});
afterAll(() => service?.[Symbol.asyncDispose]());

test("the search finds secrets", () => {
  const value = secrets.secret("credentialSecret");
  for (const content of [
    value,
    `x${value}y`,
    btoa(value),
    btoa(`x${value}`),
    btoa(`xy${value}z`),
    Buffer.from(value).toString("hex"),
  ]) {
    expect(secrets.find(content)).toEqual(["credentialSecret"]);
  }
  expect(secrets.find("nothing")).toEqual([]);
});

test("everything was exercised", () => {
  expect(responses.length).toBeGreaterThan(150);
  expect(responses.join("\n")).not.toContain('"code":"internal"');
  expect(service.log()).toContain('"level":"debug"');
  expect(service.log()).toContain("a failure");
});

test("no response contains a secret", () => {
  expect(responses.flatMap((response) => secrets.find(response).map((name) => [name, response.slice(0, 200)]))).toEqual(
    [],
  );
});

test("no log contains a secret", () => {
  const lines = service.log().split("\n");
  expect(lines.flatMap((line) => secrets.find(line).map((name) => [name, line.slice(0, 300)]))).toEqual([]);
});

describe("on disk and in the process table", () => {
  test("no file below the data directory contains a secret, while it runs and after it has stopped", async () => {
    const search = async () => {
      const entries = await readdir(service.dataDir, { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
      expect(files.map((path) => path.slice(service.dataDir.length + 1))).toContain("flowgate.db");
      const found = await Promise.all(
        files.map(async (path) => secrets.find(await readFile(path)).map((name) => [name, path])),
      );
      return found.flat();
    };
    expect(await search()).toEqual([]);
    for (const pid of [service.pid, ...(await service.childPids())]) {
      expect(secrets.find(await readFile(`/proc/${pid}/cmdline`))).toEqual([]);
      expect(secrets.find(await readFile(`/proc/${pid}/environ`))).toEqual([]);
    }
    expect(await service.stop()).toBe(0);
    expect(await search()).toEqual([]);
    expect(
      service
        .log()
        .split("\n")
        .flatMap((line) => secrets.find(line)),
    ).toEqual([]);
  });
});
