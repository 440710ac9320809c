import { expect, test } from "vitest";
import { openReceiver, type Received } from "../events/webhooks/receiver.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { eventually, startService, withoutRuntime } from "./service.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

function configFor(port: number, network: object = { allow: ["127.0.0.1"] }) {
  const url = `http://127.0.0.1:${port}/hook?token=confidential`;
  return { ...withoutRuntime, webhooks: { network, targets: [{ url, kinds: ["deployment"], secret }] } };
}

const flows = (name: string) => ({ flows: endpoint(`/${name}`, "return msg;") });

function revOf({ body }: Received): string {
  return (JSON.parse(body) as { data: { rev: string } }).data.rev;
}

/** What a receiver has that leaves out repeated events, as it should. */
function once(received: readonly Received[]): string[] {
  const byId = new Map(received.map((each) => [each.headers["webhook-id"], revOf(each)]));
  return [...byId.values()];
}

test("events are delivered in order over failures, kill -9 and restarts", async () => {
  await using receiver = await openReceiver();
  const config = configFor(receiver.port);
  receiver.respond = (_, response) => void response.writeHead(500).end();
  await using first = await startService({ config });
  const revs = [await deploy(first, flows("a"))];
  await receiver.until(1);
  revs.push(await deploy(first, flows("b")));
  // What was listed is recorded.
  await first.send("GET", "/logs");
  await first.kill9();
  receiver.respond = (_, response) => void response.writeHead(204).end();
  await using second = await startService({ config, dataDir: first.dataDir });
  revs.push(await deploy(second, flows("c")));
  await eventually(async () => expect(once(receiver.received)).toEqual(revs));
  await second.stop();
  const count = receiver.received.length;
  await using third = await startService({ config, dataDir: first.dataDir });
  revs.push(await deploy(third, flows("d")));
  await eventually(async () => expect(once(receiver.received)).toEqual(revs));
  expect(receiver.received).toHaveLength(count + 1);
  const metrics = (await third.send("GET", "/metrics")).body;
  expect(metrics).toContain(`flowgate_webhook_deliveries_total{target="0",outcome="delivered"} 1`);
  expect(first.log()).toContain("a webhook failed: it is tried again");
  expect(`${first.log()}${second.log()}${third.log()}`).not.toMatch(/confidential|MfKQ9r/);
});

test("an address of this machine is not connected to unless the configuration lists it", async () => {
  await using receiver = await openReceiver();
  await using service = await startService({ config: configFor(receiver.port, {}) });
  await deploy(service, flows("a"));
  await service.untilLogged(
    /127\.0\.0\.1: not a public address, and not listed in the option webhooks\.network\.allow/,
  );
  expect(receiver.received).toEqual([]);
});

test("one replica delivers the events of all, and another one after it was killed", async () => {
  await using receiver = await openReceiver();
  await using database = await createDatabase();
  const config = { ...configFor(receiver.port), store: database.url, credentialSecret: "a secret of all replicas" };
  await using first = await startService({ config });
  await eventually(async () =>
    expect(await database.query("SELECT name FROM flowgate.journal_cursor")).toHaveLength(1),
  );
  await using second = await startService({ config });
  const revs = [await deploy(first, flows("a")), await deploy(second, flows("b")), await deploy(first, flows("c"))];
  await eventually(async () => expect(once(receiver.received)).toHaveLength(3));
  expect(receiver.received.map((each) => revOf(each)).toSorted()).toEqual(revs.toSorted());
  await first.kill9();
  const last = await deploy(second, flows("d"));
  await eventually(async () => expect(once(receiver.received)).toContain(last));
  expect(once(receiver.received)).toHaveLength(4);
});
