import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { appendFile, chmod, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { type AddressInfo, type Socket, createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseLocation } from "../../src/store/postgres/location.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { startServer } from "../postgres/postgres.ts";
import { createFolder } from "./builders.ts";
import { openAt } from "./postgres-location.ts";

const key = randomBytes(32);
const password = "the password of the database";

/** A message of PostgreSQL's protocol (54.7 of its manual). */
function message(type: string, ...parts: readonly (string | number | Buffer)[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => {
      if (typeof part !== "number") {
        return Buffer.from(part);
      }
      const number = Buffer.alloc(4);
      number.writeInt32BE(part);
      return number;
    }),
  );
  const header = Buffer.alloc(5, type);
  header.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
}

const authenticationOk = message("R", 0);
const cleartext = message("R", 3);
const md5 = message("R", 5, "salt");
const sasl = message("R", 10, "SCRAM-SHA-256\0\0");
const readyForQuery = message("Z", "I");

type Answer = (received: string, socket: Socket) => void;

/** A program on the port of a database, which answers what it receives on each connection: the first message, and each further one. */
async function openImpostor(...answers: readonly Answer[]) {
  const received: string[] = [];
  const server = createServer((socket) => {
    let count = 0;
    socket.on("error", () => {});
    socket.on("data", (data) => {
      // The first message has no secret: user, database, and the name of the program.
      if (count > 0) {
        received.push(data.toString("latin1"));
      }
      answers[count]?.(data.toString("latin1"), socket);
      count += 1;
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `postgres://flowgate:${encodeURIComponent(password)}@127.0.0.1:${port}/flowgate`,
    received,
    [Symbol.dispose]: () => void server.close(),
  };
}

const say =
  (...messages: readonly Buffer[]): Answer =>
  (_, socket) =>
    void socket.write(Buffer.concat(messages));

test.each([
  ["a password in clear text", [say(cleartext), say(authenticationOk, readyForQuery)], "by password, where only"],
  ["one hashed with MD5", [say(md5), say(authenticationOk, readyForQuery)], "by md5, where only scram-sha-256"],
  ["nothing", [say(authenticationOk, readyForQuery)], "does not prove that it knows the password"],
  ["nothing, and is ready at once", [say(readyForQuery)], "does not prove that it knows the password"],
  ["clear text after SCRAM", [say(sasl), say(cleartext)], "by password, where only scram-sha-256 is accepted"],
  [
    "the end of SCRAM before its proof",
    [say(sasl), say(authenticationOk, readyForQuery)],
    "does not prove that it knows the password",
  ],
  [
    "SCRAM, without the password",
    [
      say(sasl),
      (received, socket) => {
        const nonce = /r=(.*)$/.exec(received)?.[1];
        socket.write(message("R", 11, `r=${nonce}more,s=${randomBytes(16).toString("base64")},i=4096`));
      },
      // All in one packet, which the driver reads at once.
      say(message("R", 12, `v=${randomBytes(32).toString("base64")}`), authenticationOk, readyForQuery),
    ],
    "does not know the password: another program may listen there",
  ],
] satisfies [string, Answer[], string][])(
  "a server without TLS that asks for %s gets neither the password nor a query",
  async (_, answers, problem) => {
    using impostor = await openImpostor(...answers);
    await expect(openAt(impostor.url, key)).rejects.toThrow(problem);
    expect(impostor.received.join("")).not.toContain(password);
    // RFC 5802: at most the client's first and last message.
    expect(impostor.received.every((data) => data.startsWith("p"))).toBe(true);
  },
);

test("the server of a connection over TLS without a verified certificate does not get it either", async () => {
  await using server = await startServer({ settings: { fsync: "off" }, tls: issueServer(createAuthority()) });
  const { url } = await server.createDatabase();
  await writeFile(join(server.data, "pg_hba.conf"), "local all all trust\nhost all postgres all scram-sha-256\n");
  await appendFile(join(server.data, "pg_hba.conf"), "hostssl all all all password\n");
  await server.query("SELECT pg_reload_conf()");
  await expect(openAt(`${url}?sslmode=no-verify`, key)).rejects.toThrow("by password, where only scram-sha-256");
});

test.each(["scram-sha-256", "password", "md5", "trust"] as const)(
  "a server with a verified certificate can authenticate with %s, and one without TLS if the URL names it",
  async (method) => {
    await using folder = await createFolder();
    const authority = createAuthority();
    const ca = join(folder.path, "ca.pem");
    await writeFile(ca, authority.cert);
    await using server = await startServer({ settings: { fsync: "off" }, tls: issueServer(authority) });
    const { url } = await server.createDatabase();
    if (method === "md5") {
      const { username, password: secret } = new URL(url);
      const hash = createHash("md5").update(`${secret}${username}`).digest("hex");
      await server.query(`ALTER ROLE flowgate PASSWORD 'md5${hash}'`);
    }
    await writeFile(
      join(server.data, "pg_hba.conf"),
      `host all postgres all scram-sha-256\nhost all all all ${method}\n`,
    );
    await server.query("SELECT pg_reload_conf()");
    await using _ = await openAt(`${url}?sslmode=verify-full&sslrootcert=${ca}`, key);
    const byDefault = await openAt(url, key).then(
      (store) => store[Symbol.asyncDispose](),
      (error: Error) => error.message,
    );
    const isDefault = method === "scram-sha-256";
    expect(String(byDefault)).toMatch(isDefault ? /^undefined$/ : /only scram-sha-256 is accepted|does not prove/);
    const name = method === "trust" ? "none" : method;
    await using named = await openAt(`${url}?require_auth=${name}`, key);
    expect(named.health()).toEqual({ isUsable: true });
  },
);

test("the server of a Unix socket in a folder of its own can authenticate with any method", async () => {
  await using server = await startServer({ settings: { fsync: "off", unix_socket_directories: "." } });
  const { url } = await server.createDatabase();
  await writeFile(join(server.data, "pg_hba.conf"), "local all all trust\nhost all all all scram-sha-256\n");
  await server.query("SELECT pg_reload_conf()");
  await using store = await openAt(`${url}?host=${server.data}`, key);
  expect(store.health()).toEqual({ isUsable: true });
  expect(store.endpoints).toEqual([{ socketFolder: server.data }]);
  await chmod(server.data, 0o777);
  await expect(openAt(`${url}?host=${server.data}`, key)).rejects.toThrow("does not prove that it knows the password");
});

test("an impostor that knows the password can't be told from the database", async () => {
  // The control of the tests above: with the password, SCRAM succeeds and queries are sent.
  let first = "";
  let salted = Buffer.alloc(0);
  let serverFirst = "";
  using impostor = await openImpostor(
    say(sasl),
    (received, socket) => {
      first = /n=\*,r=.*$/.exec(received)?.[0] ?? "";
      const salt = randomBytes(16);
      salted = pbkdf2Sync(password, salt, 4096, 32, "sha256");
      serverFirst = `r=${first.slice("n=*,r=".length)}more,s=${salt.toString("base64")},i=4096`;
      socket.write(message("R", 11, serverFirst));
    },
    (received, socket) => {
      const withoutProof = /c=biws,r=[^,]*/.exec(received)?.[0] ?? "";
      const serverKey = createHmac("sha256", salted).update("Server Key").digest();
      const signature = createHmac("sha256", serverKey).update(`${first},${serverFirst},${withoutProof}`);
      say(message("R", 12, `v=${signature.digest("base64")}`), authenticationOk, readyForQuery)(received, socket);
    },
    (_, socket) => void socket.destroy(),
  );
  await expect(openAt(impostor.url, key)).rejects.toThrow("has ended the connection");
  expect(impostor.received.join("")).toContain("SELECT");
});

test("the methods of a Unix socket depend on who can create it, and those of the URL come first", async () => {
  await using folder = await createFolder();
  const methodsAt = (location: string) => parseLocation(location).servers[0]?.authMethods;
  expect(methodsAt(`///flows?host=${folder.path}`)).toEqual(["scram-sha-256", "md5", "password", "none"]);
  expect(methodsAt("///flows?host=/tmp")).toEqual(["scram-sha-256"]);
  expect(methodsAt("///flows?host=/nowhere")).toEqual(["scram-sha-256"]);
  expect(methodsAt("///flows?host=/tmp&require_auth=none,scram-sha-256")).toEqual(["none", "scram-sha-256"]);
  expect(methodsAt("//db.example/flows")).toEqual(["scram-sha-256", "md5", "password", "none"]);
  expect(methodsAt("//db.example/flows?sslmode=disable")).toEqual(["scram-sha-256"]);
  expect(() => parseLocation("//db.example/flows?require_auth=ident")).toThrow(
    "store: require_auth must be one or more of: scram-sha-256, md5, password, none",
  );
});
