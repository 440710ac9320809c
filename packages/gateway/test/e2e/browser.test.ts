import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { fastify } from "fastify";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser, openBrowser } from "../../../../test/e2e/browser.ts";
import { fastifyGatewayPlugin } from "../../src/adapters/fastify/index.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The test of the REST transport in a browser is skipped: ${missingBrowser}.\n`);
}

const root = join(import.meta.dirname, "../..");

const program = `
import { createClient } from "@connectrpc/connect";
import { createRestTransport } from "${root}/src/client/index.ts";
import { ThingsService } from "${root}/test/gen/gatewaytest/v1/things_pb.ts";
import { StreamsService } from "${root}/test/gen/gatewaytest/v1/streams_pb.ts";

const transport = createRestTransport({ baseUrl: location.origin });
const things = createClient(ThingsService, transport);
const streams = createClient(StreamsService, transport);
const failure = (call) => call.then(() => "no error", (error) => String(error));

async function run() {
  const { thing } = await things.echoThing({
    thing: { text: "ü世😀", large: 9007199254740993n, data: new Uint8Array([251, 255]), ratio: -0, struct: { a: [1] } },
  });
  const texts = [];
  for await (const { text } of streams.list({ shelf: "a/b" })) {
    texts.push(text);
  }
  return [
    thing.text, String(thing.large), [...thing.data], Object.is(thing.ratio, -0), thing.struct, texts,
    await failure(things.getHeaders({ count: 1 })),
    await failure(streams.sum((async function* () { yield { count: 1 }; })())),
  ];
}
const output = document.querySelector("output");
run().then((values) => (output.value = JSON.stringify(values)), (error) => (output.value = String(error)));
`;

const skipsBrowser = missingBrowser !== undefined;

test.skipIf(skipsBrowser)("an EventSource receives each message of a stream once, and stops at its end", async () => {
  /** The Last-Event-ID of each call. A browser may repeat a request whose response it has lost. */
  const resumed = new Set<string | null>();
  const app = fastify({ forceCloseConnections: true });
  app.get("/", (_, reply) => reply.type("text/html").send("<!doctype html><title>Events</title>"));
  await app.register(fastifyGatewayPlugin, {
    rules: [{ selector: "gatewaytest.v1.StreamsService.List", options: { sse: { id: "count", event: "shelf" } } }],
    routes: (router) =>
      router.service(StreamsService, {
        async *list(_, { requestHeader }) {
          const lastId = requestHeader.get("last-event-id");
          resumed.add(lastId);
          // The connection is lost after the first message.
          if (lastId === null) {
            yield { text: "a", count: 1, shelf: "added" };
            throw new ConnectError("restarting", Code.Unavailable);
          }
          yield { text: "b", count: 2, shelf: "added" };
        },
      }),
  });
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  try {
    await using browser = await openBrowser();
    const { page } = await browser.openTab();
    await page.goto(url);
    const received = await page.evaluate(`new Promise((resolve) => {
      const events = [];
      const source = new EventSource("/streams/s/items");
      source.addEventListener("added", ({ data, lastEventId }) => events.push([JSON.parse(data).text, lastEventId]));
      source.addEventListener("error", () => source.readyState === EventSource.CLOSED && resolve(events));
    })`);
    expect(received).toEqual([
      ["a", "1"],
      ["b", "2"],
    ]);
    expect([...resumed]).toEqual([null, "1"]);
  } finally {
    await app.close();
  }
});

describe.skipIf(skipsBrowser)("a program that Vite has bundled", () => {
  let folder: string;
  beforeAll(async () => {
    // Within the project, so that the program finds its packages.
    const cache = join(root, "../../node_modules/.cache");
    await mkdir(cache, { recursive: true });
    folder = await mkdtemp(join(cache, "rest-transport-"));
    await writeFile(join(folder, "main.js"), program);
    await writeFile(
      join(folder, "index.html"),
      `<!doctype html><title>REST</title><output></output><script type="module" src="main.js"></script>`,
    );
    await build({ configFile: false, root: folder, base: "/page/", logLevel: "error" });
  });
  afterAll(() => rm(folder, { recursive: true }));

  test.each([
    ["", "compiled functions"],
    ["script-src 'self'", "a policy that forbids them"],
  ])("calls a server in a browser: %j, with %s", async (policy) => {
    const app = fastify({ forceCloseConnections: true });
    app.get("/page/*", async (request, reply) => {
      const path = (request.params as { "*": string })["*"] || "index.html";
      const type = path.endsWith(".js") ? "text/javascript" : "text/html";
      return reply
        .headers({ "content-type": type, ...(policy !== "" && { "content-security-policy": policy }) })
        .send(await readFile(join(folder, "dist", path)));
    });
    await app.register(fastifyGatewayPlugin, {
      routes: (router) => {
        router
          .service(ThingsService, {
            echoThing: ({ thing }) => ({ ...(thing && { thing }) }),
            getHeaders() {
              throw new ConnectError("no such thing", Code.NotFound);
            },
          })
          .service(StreamsService, {
            async *list({ shelf }) {
              yield { text: shelf };
              yield { text: "end" };
            },
          });
      },
    });
    try {
      const url = await app.listen({ host: "127.0.0.1", port: 0 });
      await using browser = await openBrowser();
      const { page } = await browser.openTab();
      await page.goto(`${url}/page/`);
      const output = page.locator("output");
      await output.filter({ hasText: /./ }).waitFor();
      const values = JSON.parse(await output.innerText()) as unknown[];
      expect(values.slice(0, -1)).toEqual([
        "ü世😀",
        "9007199254740993",
        [251, 255],
        true,
        { a: [1] },
        ["a/b", "end"],
        "ConnectError: [not_found] no such thing",
      ]);
      // Chromium streams request bodies over HTTP/2 only.
      expect(values.at(-1)).toMatch(/^ConnectError: \[unavailable\] the connection failed/);
    } finally {
      await app.close();
    }
  });
});
