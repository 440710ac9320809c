import { gzipSync } from "node:zlib";
import { describe, expect, test, type TestOptions } from "vitest";
import type { Answer, SendRequest } from "./clients.ts";
import { bundleForEdge } from "./edge.ts";
import { requests, type TestRequest } from "./requests.ts";
import { servers, type TestServer } from "./servers.ts";

const [reference, ...others] = servers;

/** Sends all requests to one server, one after the other, as each of them is described by its answer. */
async function sendAll(server: TestServer): Promise<Map<TestRequest, Answer>> {
  await using running = await server.open();
  return await collectAnswers(
    running.send,
    requests.filter((each) => !(server.isFetch && each.isNoFetchRequest)),
  );
}

async function collectAnswers(send: SendRequest, all: readonly TestRequest[]): Promise<Map<TestRequest, Answer>> {
  const answers = new Map<TestRequest, Answer>();
  for (const request of all) {
    answers.set(
      request,
      await send(request).catch((cause: unknown) => {
        throw new Error(`there is no answer to ${request.name}`, { cause });
      }),
    );
  }
  return answers;
}

const skippedFor = ({ missing }: TestServer): TestOptions =>
  missing === undefined ? {} : { skip: true, meta: { skipReason: missing } };

describe("the table of requests", async () => {
  const expected = reference === undefined ? new Map<TestRequest, Answer>() : await sendAll(reference);

  test.each(requests)("$name: $status", (request) => {
    const { status, isAborted } = expected.get(request) ?? {};
    expect({ status, isAborted }).toEqual({ status: request.status, isAborted: request.isAborted === true });
  });

  for (const server of others) {
    test(`has the same answers: ${server.name}`, skippedFor(server), async () => {
      const { normalize = (answer) => answer } = server;
      const actual = await sendAll(server);
      expect(actual.size).toBeGreaterThan(50);
      for (const [request, answer] of actual) {
        const same = expected.get(request) as Answer;
        expect({ request: request.name, ...normalize(answer) }).toEqual({
          request: request.name,
          ...normalize(server.expect?.(request, same) ?? same),
        });
      }
    });
  }
});

test("an edge runtime loads no module of Node", async () => {
  const { code, modules } = await bundleForEdge();
  expect(modules.filter((each) => /^node:|browser-external/.test(each))).toEqual([]);
  expect(modules.some((each) => each.endsWith("/platform/web/bytes.ts"))).toBe(true);
  expect(code).not.toMatch(/\bfrom "node:|require\(/);
});

describe("a bundle with REST alone", () => {
  const bundles = Promise.all(
    ["rest-only", "all-protocols"].map((entry) => bundleForEdge(`fixtures/${entry}.ts`, { minify: true })),
  );

  test("has no code of the other protocols", async () => {
    const isRpc = (module: string): boolean => /\/protocols\/(?:rpc|connect\.ts|grpc)/.test(module);
    const [rest, all] = await bundles;
    expect(all?.modules.some(isRpc)).toBe(true);
    expect(rest?.modules.filter(isRpc)).toEqual([]);
  });

  test("is smaller than 72.7 kB, minified and compressed, with Connect and protobuf-es", async () => {
    const [rest, all] = (await bundles).map(({ code, modules }) => {
      expect(modules.some((each) => each.includes("/@connectrpc/connect/"))).toBe(true);
      expect(modules.some((each) => each.includes("/@bufbuild/protobuf/"))).toBe(true);
      return gzipSync(code).length;
    });
    expect(rest).toBeLessThan(72_700);
    expect(rest).toBeLessThan(all ?? 0);
  });
});
