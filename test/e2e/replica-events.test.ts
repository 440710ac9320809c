import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ReplicasService } from "../../gen/flowgate/replicas/v1/replicas_pb.ts";
import { deriveReplicaKey, formatAuthorization } from "../../src/events/replicas/proof.ts";
import type { Database } from "../postgres/database.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { bearer } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { type Seen, watch, type Watch, watchProtocols } from "./watch-events.ts";

const sse = watchProtocols["SSE"] as (typeof watchProtocols)[string];
const credentialSecret = "a secret that all replicas share";

function configFor(database: Database) {
  return { store: database.url, credentialSecret, ...withoutRuntime };
}

/** Replicas that know each other. */
async function startReplicas(count: number, config: object, stack: AsyncDisposableStack): Promise<Service[]> {
  const services = await Promise.all(
    Array.from({ length: count }, async () => stack.use(await startService({ config }))),
  );
  await Promise.all(services.map((service) => untilListed(service, count)));
  return services;
}

async function untilListed(service: Service, count: number): Promise<void> {
  await eventually(async () => {
    const { replicas } = (await service.send("GET", "/settings")).json() as { replicas: unknown[] };
    expect(replicas).toHaveLength(count);
  });
}

async function nameOf(service: Service): Promise<string> {
  const { replicas } = (await service.send("GET", "/settings")).json() as {
    replicas: { name: string; self: boolean }[];
  };
  return replicas.find(({ self }) => self)?.name ?? "";
}

const isSnapshotEnd = ({ kind }: Seen): boolean => kind === "snapshotEnd";
const isDeployment = ({ kind }: Seen): boolean => kind === "deployment";
const isMissing = ({ kind, event }: Seen): boolean =>
  kind === "dropped" && (event["dropped"] as { reason: string }).reason === "replica_unreachable";

/** Opens a watch of deployments, and waits for the current state. */
async function watchDeployments(service: Service, stack: AsyncDisposableStack, after = ""): Promise<Watch> {
  const events = stack.use(watch(sse, service.url, { kinds: ["deployment"], ...(after !== "" && { after }) }));
  await events.until((seen) => (after === "" ? isSnapshotEnd(seen) : seen.kind === "bookmark"));
  return events;
}

/** The deployments after the current state. */
function live(events: Watch): Seen[] {
  const start = events.seen.findIndex(isSnapshotEnd);
  return events.seen.slice(start + 1).filter(isDeployment);
}

async function untilRevs(events: Watch, revs: readonly string[]): Promise<void> {
  for (const rev of revs) {
    await events.until((seen) => isDeployment(seen) && seen.event["rev"] === rev);
  }
}

describe("three replicas", () => {
  const replicas = new AsyncDisposableStack();
  let database: Database;
  let services: [Service, Service, Service];
  beforeAll(async () => {
    database = replicas.use(await createDatabase());
    services = (await startReplicas(3, configFor(database), replicas)) as typeof services;
  });
  afterAll(() => replicas.disposeAsync());

  test("a watch at any replica has the events of all, in one order and under the same ids", async () => {
    await using stack = new AsyncDisposableStack();
    const watches = await Promise.all(services.map((service) => watchDeployments(service, stack)));
    const names = await Promise.all(services.map((service) => nameOf(service)));
    await using states = watch(sse, services[0].url, { kinds: ["runtime_state"] });
    const snapshot = await states.until(isSnapshotEnd);
    expect(snapshot.filter(({ kind }) => kind === "runtimeState").map(({ event }) => event["runtime"])).toEqual(
      expect.arrayContaining(names),
    );
    const revs: string[] = [];
    for (let round = 0; round < 4; round += 1) {
      for (const service of services) {
        revs.push(await deploy(service, { flows: endpoint(`/${revs.length}`, "return msg;") }));
      }
    }
    await Promise.all(watches.map((each) => untilRevs(each, revs)));
    const [first, ...others] = watches.map((each) => live(each));
    for (const other of others) {
      expect(other).toEqual(first);
    }
    expect(first?.map(({ event }) => event["rev"])).toEqual(revs);
    expect(new Set(first?.map(({ event }) => event["runtime"]))).toEqual(new Set(names));
    const ids = first?.map(({ id }) => id) ?? [];
    expect(ids).toEqual(ids.toSorted());
    expect(watches.flatMap(({ seen }) => seen).filter(({ kind }) => kind === "dropped")).toEqual([]);

    // At each replica, after each event.
    for (const [at, service] of services.entries()) {
      const after = ids[4 * at] ?? "";
      const resumed = await watchDeployments(service, stack, after);
      await untilRevs(resumed, revs.slice(-1));
      expect(resumed.seen.filter(isDeployment)).toEqual(first?.slice(4 * at + 1));
    }
  });

  test("a replica that starts again after a kill is watched again, and its events are in the stream once", async () => {
    await using stack = new AsyncDisposableStack();
    const [first, second] = services;
    const events = await watchDeployments(first, stack);
    const before = await deploy(second, { flows: endpoint("/a", "return msg;") });
    await untilRevs(events, [before]);
    await second.kill9();
    await events.until(isMissing);
    const { dataDir, port } = second;
    const successor = replicas.use(await startService({ config: configFor(database), dataDir, port }));
    services[1] = successor;
    const after = await deploy(successor, { flows: endpoint("/b", "return msg;") });
    await untilRevs(events, [after]);
    const seen = live(events);
    expect(seen.map(({ event }) => event["rev"])).toEqual([before, after]);
  });

  test("a replica that is killed is named, and its client goes on at another one without a gap", async () => {
    await using stack = new AsyncDisposableStack();
    const [first, second, third] = services;
    const all = await watchDeployments(third, stack);
    const lost = await watchDeployments(second, stack);
    const name = await nameOf(second);
    const revs: string[] = [];
    const deployAt = async (...at: Service[]): Promise<void> => {
      for (const service of at) {
        revs.push(await deploy(service, { flows: endpoint(`/${revs.length}`, "return msg;") }));
      }
    };
    await deployAt(first, second, third, second);
    await untilRevs(lost, revs);
    // What was listed is recorded.
    await second.send("GET", "/logs");
    await second.kill9();
    const seen = live(lost);
    expect((await all.until(isMissing)).find(isMissing)?.event["runtime"]).toBe(name);
    await deployAt(first, third);
    const resumed = await watchDeployments(first, stack, seen.at(-1)?.id ?? "");
    await untilRevs(resumed, revs.slice(-1));
    const total = [...seen, ...resumed.seen.filter(isDeployment)];
    expect(total.map(({ event }) => event["rev"])).toEqual(revs);
    expect(new Set(total.map(({ id }) => id)).size).toBe(total.length);
    // What the client had is what the journal has.
    await eventually(async () => {
      const { logs } = (await first.send("GET", "/logs?kinds=deployment&pageSize=100")).json() as { logs: unknown[] };
      expect(logs.toReversed().slice(-total.length)).toEqual(total.map(({ event }) => event));
    });
    // It is not waited for, and no longer named when it is gone.
    await untilListed(first, 2);
    await using later = watch(sse, first.url, { kinds: ["deployment"] });
    expect((await later.until(isSnapshotEnd)).filter(isMissing)).toEqual([]);
  });
});

test("a replica that is paused is named and not waited for, and its events follow when it goes on", async () => {
  await using database = await createDatabase();
  await using stack = new AsyncDisposableStack();
  const [first, second] = (await startReplicas(2, configFor(database), stack)) as [Service, Service];
  const events = await watchDeployments(first, stack);
  process.kill(second.pid, "SIGSTOP");
  const revs = [await deploy(first, { flows: endpoint("/a", "return msg;") })];
  await events.until(isMissing);
  await untilRevs(events, revs);
  process.kill(second.pid, "SIGCONT");
  revs.push(await deploy(second, { flows: endpoint("/b", "return msg;") }));
  revs.push(await deploy(first, { flows: endpoint("/c", "return msg;") }));
  await untilRevs(events, revs);
  expect(new Set(live(events).map(({ event }) => event["rev"]))).toEqual(new Set(revs));
  expect(live(events)).toHaveLength(revs.length);
  const later = await watchDeployments(first, stack);
  expect(later.seen.filter(isMissing)).toEqual([]);
});

test("replicas with TLS accept each other by the certificates in the store", async () => {
  await using database = await createDatabase();
  await using stack = new AsyncDisposableStack();
  const authority = createAuthority();
  const start = async (): Promise<Service> => {
    const { cert, key } = issueServer(authority);
    const files = { certFile: await write(stack, cert), keyFile: await write(stack, key) };
    const clientCaFile = await write(stack, authority.cert);
    const tls = { ...files, clientCaFile, clientCertificate: "request" };
    const config = { ...configFor(database), tls };
    return stack.use(await startService({ config, tls: { ca: authority.cert } }));
  };
  const [first, second] = [await start(), await start()];
  await untilListed(first, 2);
  const { promise: seen, resolve, reject } = Promise.withResolvers<string>();
  const headers = { accept: "text/event-stream" };
  const request = get(`${first.url}/events?kinds=deployment`, { ca: authority.cert, headers });
  stack.defer(() => void request.destroy());
  request.on("error", reject);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  let text = "";
  let rev: string | undefined;
  response
    .on("error", () => {})
    .setEncoding("utf8")
    .on("data", (chunk: string) => {
      text += chunk;
      if (rev === undefined ? text.includes("event: snapshot_end") : text.includes(rev)) {
        resolve(text);
      }
    });
  expect(await seen).not.toContain("replica_unreachable");
  rev = await deploy(second, { flows: endpoint("/a", "return msg;") });
  await eventually(async () => expect(text).toContain(rev));
});

async function write(stack: AsyncDisposableStack, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-tls-"));
  stack.defer(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "file.pem"), text);
  return join(folder, "file.pem");
}

test("only replicas may call what replicas call", async () => {
  await using database = await createDatabase();
  const config = { ...configFor(database), adminAuth: { users: [user("admin", "*")] } };
  await using service = await startService({ config });
  const client = createClient(ReplicasService, createGrpcTransport({ baseUrl: service.url }));
  const [row] = await eventually(async () => {
    const rows = await database.query<{ id: string }>("SELECT id FROM flowgate.replica");
    expect(rows).toHaveLength(1);
    return rows;
  });
  const id = row?.id ?? "";
  const keys = () => [deriveReplicaKey(credentialSecret)];
  const call = async (authorization: string | undefined): Promise<string> => {
    const headers = authorization === undefined ? {} : { authorization };
    try {
      await client.confirmPosition({ position: "1" }, { headers });
      return "ok";
    } catch (error) {
      return ConnectError.from(error).rawMessage;
    }
  };
  const refused = "Only replicas of this service may call this.";
  const tampered = formatAuthorization(keys, "other", id).replace(".", "x.");
  expect(await call(undefined)).toBe(refused);
  expect(await call(bearer(await login(service, { username: "admin", scope: "*" })).authorization)).toBe(refused);
  expect(await call(formatAuthorization(() => [deriveReplicaKey("another secret")], "other", id))).toBe(refused);
  expect(await call(formatAuthorization(keys, "other", "another id"))).toBe(refused);
  expect(await call(formatAuthorization(keys, "other", id, Date.now() - 120_000))).toBe(refused);
  expect(await call(tampered)).toBe(refused);
  const authorization = formatAuthorization(keys, "other", id);
  expect(await call(authorization)).toBe("ok");
  expect(await call(authorization)).toBe(refused);
  expect(await call(formatAuthorization(keys, "other", id))).toBe("ok");
  expect(service.log()).not.toContain("Flowgate-Replica");
});
