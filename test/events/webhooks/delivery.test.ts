import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHmac } from "node:crypto";
import { pino } from "pino";
import { expect, test } from "vitest";
import { LogLevel } from "../../../gen/flowgate/v1/events_pb.ts";
import { EventHub } from "../../../src/events/hub.ts";
import { openJournal } from "../../../src/events/journal.ts";
import {
  type DeliveryOutcome,
  type DeliveryTimes,
  WebhookDelivery,
  type WebhookTarget,
} from "../../../src/events/webhooks/delivery.ts";
import { sendWebhook } from "../../../src/events/webhooks/send.ts";
import { parseSecret } from "../../../src/events/webhooks/signature.ts";
import { createTargetPolicy } from "../../../src/events/webhooks/target-policy.ts";
import { JournalDatabase } from "../../../src/store/sqlite/journal-database.ts";
import { openReceiver, type Received, type Receiver } from "./receiver.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** A hub with a journal, and a receiver. */
async function setUp() {
  const stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "flowgate-webhooks-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const receiver = stack.use(await openReceiver());
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const store = new JournalDatabase(join(folder, "journal.db"), () => {});
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  const journal = stack.use(openJournal({ store, hub, log, maxBytes: 1e9, maxAgeMs: 1e9 }));
  const outcomes: DeliveryOutcome[] = [];
  /** Events from then on are delivered. */
  const start = async (
    target: Partial<WebhookTarget> = {},
    times: Partial<DeliveryTimes> = {},
    holder = "",
  ): Promise<WebhookDelivery> => {
    const delivery = new WebhookDelivery({
      target: {
        id: "target",
        label: "0 127.0.0.1",
        url: new URL(`http://127.0.0.1:${receiver.port}/path?token=confidential`),
        kinds: new Set(["log"]),
        level: undefined,
        format: "event",
        key: parseSecret(secret),
        ...target,
      },
      journal,
      holder,
      send: (request, signal) =>
        sendWebhook(request, {
          policy: createTargetPolicy({ allow: ["127.0.0.1"], deny: [] }),
          timeoutMs: 5_000,
          signal,
        }),
      onOutcome: (outcome) => void outcomes.push(outcome),
      userAgent: "Flowgate/test",
      log,
      times: { minRetryMs: 1, maxRetryMs: 5, giveUpMs: 60_000, claimMs: 10_000, pollMs: 20, ...times },
    });
    stack.use(hub.onEvent(() => delivery.notify()));
    await delivery.started;
    return delivery;
  };
  const publish = (message: string, level: LogLevel = LogLevel.INFO): string =>
    hub.publish({ kind: { case: "log", value: { level, message } } }).id;
  return { receiver, hub, store, lines, outcomes, start, publish, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

function messageOf({ body }: Received): string {
  return (JSON.parse(body) as { data: { log: { message: string } } }).data.log.message;
}

function failTimes(receiver: Receiver, count: number, status = 500): void {
  receiver.respond = (_, response) => void response.writeHead(receiver.received.length <= count ? status : 204).end();
}

test("events are sent signed, in order, with the JSON of the API", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish, hub } = fixture;
  await using _ = await start();
  const ids = [publish("one"), publish("two")];
  hub.publish({ kind: { case: "token", value: { action: "created" } } });
  ids.push(publish("three"));
  const received = await receiver.until(3);
  expect(received.map((each) => messageOf(each))).toEqual(["one", "two", "three"]);
  expect(received.map(({ headers }) => headers["webhook-id"])).toEqual(ids);
  for (const { headers, body } of received) {
    const signed = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`;
    const hmac = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
      .update(signed)
      .digest("base64");
    expect(headers).toMatchObject({ "webhook-signature": `v1,${hmac}`, "user-agent": "Flowgate/test" });
  }
  expect(JSON.parse(received[0]?.body ?? "")).toMatchObject({
    type: "log",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) as string,
    data: { id: ids[0], log: { level: "info", message: "one" } },
  });
});

test("only events of the level or a more severe one are sent", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish } = fixture;
  await using _ = await start({ level: LogLevel.WARN });
  publish("info");
  publish("warning", LogLevel.WARN);
  publish("debug", LogLevel.DEBUG);
  publish("error", LogLevel.ERROR);
  expect((await receiver.until(2)).map((each) => messageOf(each))).toEqual(["warning", "error"]);
});

test("a failed event is sent again under its id before the next one, and the log has no secret", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish, outcomes, lines } = fixture;
  await using _ = await start();
  failTimes(receiver, 2);
  publish("one");
  publish("two");
  const received = await receiver.until(4);
  expect(received.map((each) => messageOf(each))).toEqual(["one", "one", "one", "two"]);
  expect(new Set(received.slice(0, 3).map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  expect(outcomes.slice(0, 3)).toEqual(["failed", "failed", "delivered"]);
  const failures = lines.filter(({ msg }) => msg === "a webhook failed: it is tried again");
  expect(failures).toMatchObject([
    { attempt: 1, target: "0 127.0.0.1", reason: "it responded with 500" },
    { attempt: 2, reason: "it responded with 500" },
  ]);
  expect(JSON.stringify(lines)).not.toMatch(/confidential|whsec|MfKQ9r/);
});

test("an event that is too old when it fails is given up, and the next one is sent", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish, outcomes } = fixture;
  await using _ = await start({}, { giveUpMs: -1 });
  failTimes(receiver, 1);
  publish("one");
  publish("two");
  expect((await receiver.until(2)).map((each) => messageOf(each))).toEqual(["one", "two"]);
  expect(outcomes[0]).toBe("given_up");
});

test("events that the journal removes while a receiver fails are told", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish, outcomes, lines, store } = fixture;
  const lost = (): unknown[] =>
    lines.filter(({ msg }) => msg === "the journal has removed events before they were sent to a webhook");
  await using _ = await start();
  failTimes(receiver, 1);
  publish("one");
  await receiver.until(2);
  publish("two");
  await receiver.until(3);
  expect(lost()).toEqual([]);
  const pruned = Promise.withResolvers<void>();
  receiver.respond = (_received, response) => {
    void pruned.promise.then(() => response.writeHead(receiver.received.length === 4 ? 500 : 204).end());
  };
  const id = publish("three");
  await receiver.until(4);
  await store.prune({ maxBytes: 1e9, fromMs: Date.now() + 1_000 });
  pruned.resolve();
  await receiver.until(5);
  publish("four");
  await receiver.until(6);
  expect(lost()).toMatchObject([{ target: "0 127.0.0.1", after: id }]);
  expect(outcomes.filter((outcome) => outcome === "lost")).toHaveLength(1);
});

test.each([400, 413, 422])(
  "an event that is refused with %i three times is given up, and the next one is sent",
  async (status) => {
    await using fixture = await setUp();
    const { receiver, start, publish, outcomes, lines } = fixture;
    await using _ = await start();
    receiver.respond = ({ body }, response) => void response.writeHead(body.includes("refused") ? status : 204).end();
    publish("refused");
    publish("two");
    expect((await receiver.until(4)).map((each) => messageOf(each))).toEqual(["refused", "refused", "refused", "two"]);
    expect(outcomes.slice(0, 3)).toEqual(["failed", "failed", "given_up"]);
    expect(lines.find(({ msg }) => msg === "an event was not delivered to a webhook, and is given up")).toMatchObject({
      attempt: 3,
      reason: `it responded with ${status}`,
    });
  },
);

test("after 410 nothing more is sent until the next start", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish, lines } = fixture;
  {
    await using delivery = await start();
    failTimes(receiver, 1, 410);
    publish("one");
    await receiver.until(1);
    publish("two");
    await delivery.ended;
  }
  expect(receiver.received).toHaveLength(1);
  expect(lines.at(-1)).toMatchObject({
    msg: "a webhook has ended with 410: nothing more is sent until the next start",
  });
  await using _ = await start();
  expect((await receiver.until(3)).map((each) => messageOf(each))).toEqual(["one", "one", "two"]);
});

test("what was published while nothing was delivered is sent after a restart", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish } = fixture;
  {
    await using _ = await start();
    publish("one");
    await receiver.until(1);
  }
  publish("two");
  {
    await using _ = await start();
    await receiver.until(2);
  }
  expect(receiver.received.map((each) => messageOf(each))).toEqual(["one", "two"]);
});

test("of two processes one delivers, and the other one when it has ended", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish } = fixture;
  const first = await start({}, {}, "a");
  await using _ = await start({}, {}, "b");
  publish("one");
  publish("two");
  await receiver.until(2);
  await first[Symbol.asyncDispose]();
  publish("three");
  expect((await receiver.until(3)).map((each) => messageOf(each))).toEqual(["one", "two", "three"]);
});

test("a chat gets a line of text without markup and mentions of the flows", async () => {
  await using fixture = await setUp();
  const { receiver, start, publish } = fixture;
  await using _ = await start({ format: "slack", key: undefined });
  publish("<!channel> & @all", LogLevel.ERROR);
  const [first] = await receiver.until(1);
  expect(JSON.parse(first?.body ?? "")).toEqual({ text: "error: &lt;!channel&gt; &amp; @\u200Ball" });
  expect(first?.headers["webhook-signature"]).toBeUndefined();
});

test.each([
  ["x".repeat(5_000), /^error: x{2992}…$/],
  ["&".repeat(5_000), /^error: (?:&amp;)+…$/],
  ["😀".repeat(5_000), /^error: (?:😀)+…$/u],
])("a chat gets the start of a long text", async (message, expected) => {
  await using fixture = await setUp();
  const { receiver, start, publish } = fixture;
  await using _ = await start({ format: "slack" });
  publish(message, LogLevel.ERROR);
  const [first] = await receiver.until(1);
  const { text } = JSON.parse(first?.body ?? "") as { text: string };
  expect(text).toMatch(expected);
  expect(text.length).toBeLessThanOrEqual(3_000);
});
