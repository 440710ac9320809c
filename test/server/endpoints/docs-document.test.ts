import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { documentUrl, formatDocument } from "../../../scripts/openapi.ts";
import { endpoints } from "../../../scripts/openapi-endpoints.ts";
import { examples } from "../../../scripts/openapi-examples.ts";
import type { OpenApiDocument } from "@flowgate/gateway";
import type { OperationObject } from "../../../packages/gateway/src/openapi/document.ts";
import { createSchemaCheck, problemOf, schemaPaths } from "../../../packages/gateway/test/openapi-check.ts";

const text = await readFile(documentUrl, "utf8");
const document = JSON.parse(text) as OpenApiDocument;

test("openapi.json is the output of `npm run openapi`", async () => {
  expect(await formatDocument()).toBe(text);
});

test("openapi.json is valid OpenAPI 3.1, by the official schema", async () => {
  expect(await problemOf(document)).toBeUndefined();
});

test("the official schema detects errors", async () => {
  const { info: _, ...rest } = document;
  expect(await problemOf(rest)).toContain("info");
  expect(
    await problemOf({ ...document, paths: { "/flows": { get: { responses: { twohundred: {} } } } } }),
  ).toBeDefined();
});

test("every schema compiles, with valid references", () => {
  const check = createSchemaCheck(document);
  const paths = schemaPaths(document);
  expect(paths.length).toBeGreaterThan(40);
  for (const path of paths) {
    expect(() => check(path, undefined)).not.toThrow();
  }
  expect(() => check(["components", "schemas", "Missing"], undefined)).toThrow("can't resolve reference");
});

test("each example is valid by its schema", () => {
  const check = createSchemaCheck(document);
  let count = 0;
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const contents = [
        ["requestBody"],
        ...Object.keys(operation.responses ?? {}).map((status) => ["responses", status]),
      ];
      for (const keys of contents) {
        const place = ["paths", path, method, ...keys, "content"];
        const content = at(document, place) as
          | Record<string, { examples?: Record<string, { value: unknown }> }>
          | undefined;
        for (const [mediaType, { examples = {} }] of Object.entries(content ?? {})) {
          for (const [name, { value }] of Object.entries(examples)) {
            const said = check([...place, mediaType, "schema"], value);
            expect(said, `${place.join(" ")} ${mediaType}: ${name}`).toBeUndefined();
            count++;
          }
        }
      }
    }
  }
  expect(count).toBe(countExamples());
});

test("every operation has a summary, its permission, and examples of its request and responses", () => {
  for (const operation of Object.values(document.paths).flatMap((item) => Object.values(item)) as OperationObject[]) {
    const { operationId, requestBody, responses } = operation;
    expect(operation).toMatchObject({ summary: expect.stringMatching(/./), security: expect.any(Array) });
    const succeeded = Object.entries(responses).filter(([status]) => status.startsWith("2"));
    const contents = [requestBody?.content ?? {}, ...succeeded.map(([, { content = {} }]) => content)];
    for (const [mediaType, media] of contents.flatMap((content) => Object.entries(content))) {
      expect(Object.keys(media["examples"] ?? {}), `${operationId} ${mediaType}`).not.toEqual([]);
    }
  }
});

function endpointOperations(): OperationObject[] {
  return Object.values(endpoints).map(({ get }) => get as OperationObject);
}

function countExamples(): number {
  const ofOperations = Object.values(examples)
    .flatMap(({ request = {}, responses = {} }) => [request, ...Object.values(responses)])
    .flatMap((content) => Object.values(content));
  const ofEndpoints = endpointOperations()
    .flatMap(({ responses }) => Object.values(responses))
    .flatMap(({ content = {} }) => Object.values(content))
    .map((media) => media["examples"] ?? {});
  return [...ofOperations, ...ofEndpoints].reduce<number>((sum, byName) => sum + Object.keys(byName).length, 0);
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value);
}
