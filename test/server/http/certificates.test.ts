import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import http2 from "node:http2";
import https from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { createAuthority, daysFromNow, type Issued, issueServer } from "../../certificates.ts";
import { eventually } from "../../e2e/service.ts";
import { authority, workloads, client, open, get, login, failure } from "./open-tls.ts";

describe("at the start", () => {
  const { cert, key } = issueServer(authority);

  test.each([
    ["tls.keyFile: is not the key of the certificate in tls.certFile", { server: { cert, key: workloads.key } }],
    ["tls.certFile: must contain certificates in PEM format", { server: { cert: key, key } }],
    ["tls.certFile: must contain certificates in PEM format", { server: { cert: `${cert}${cert.slice(0, 80)}`, key } }],
    ["tls.keyFile: must contain a private key in PEM format, without a passphrase", { server: { cert, key: cert } }],
    [
      "tls.keyFile: must contain a private key in PEM format, without a passphrase",
      { server: { cert, key: encrypted() } },
    ],
    [
      "tls.clientCaFile: must contain certificates in PEM format",
      { clientCa: "", clientCertificate: "require" as const },
    ],
  ])("rejects files that can't be used: %s", async (message, opening) => {
    await expect(open(opening)).rejects.toMatchObject({ message });
  });

  test("warns once a day of a certificate that expires within two weeks, until it is replaced", async () => {
    const clock = createClock();
    const ending = issueServer(authority, { from: daysFromNow(-70), to: daysFromNow(20) });
    await using server = await open({ server: ending, nowMs: () => clock.nowMs() });
    const warnings = async (): Promise<number> => {
      await clock.looks(5);
      return (await server.logged(/^/)).split("tls.certFile: the certificate expires soon: renew it").length - 1;
    };
    expect(await warnings()).toBe(0);
    clock.setDays(6.5);
    expect(await warnings()).toBe(1);
    clock.setDays(7.4);
    expect(await warnings()).toBe(1);
    clock.setDays(7.6);
    expect(await warnings()).toBe(2);

    const next = issueServer(authority, { to: daysFromNow(80) });
    await writeFile(server.keyFile, next.key);
    await writeFile(server.certFile, next.cert);
    await server.logged(/were reloaded/);
    clock.setDays(15);
    expect(await warnings()).toBe(2);
  });

  test("does not warn of a short-lived certificate before the last third of its validity", async () => {
    const clock = createClock();
    const short = issueServer(authority, { from: daysFromNow(-1), to: daysFromNow(5) });
    await using server = await open({ server: short, nowMs: () => clock.nowMs() });
    await clock.looks(5);
    expect(await server.logged(/^/)).not.toContain("the certificate");
    clock.setDays(3.5);
    await server.logged(/the certificate expires soon: renew it/);
    clock.setDays(5.5);
    await server.logged(/the certificate has expired, clients will reject it/);
  });

  test("warns of a certificate that has expired, or is not valid yet", async () => {
    await using expired = await open({ server: issueServer(authority, { to: daysFromNow(-0.5) }) });
    expect(await expired.logged(/tls\.certFile/)).toContain(
      "the certificate has expired, clients will reject it: renew it",
    );
    await using early = await open({ server: issueServer(authority, { from: daysFromNow(0.5) }) });
    expect(await early.logged(/tls\.certFile/)).toContain("the certificate is not valid yet, clients will reject it");
  });
});

/** A clock that is read at each poll of the files. */
function createClock() {
  const startMs = Date.now();
  let days = 0;
  let seen = 0;
  return {
    nowMs() {
      seen += 1;
      return startMs + days * 86_400_000;
    },
    setDays: (passed: number) => void (days = passed),
    looks(count: number): Promise<void> {
      const until = seen + count;
      return eventually(async () => expect(seen).toBeGreaterThanOrEqual(until));
    },
  };
}

function encrypted(): string {
  return generateKeyPairSync("ec", {
    namedCurve: "P-256",
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "secret" },
  }).privateKey;
}

describe("when the files change", () => {
  const serialOf = ({ cert }: Issued): string => new X509Certificate(cert).serialNumber;

  /** Waits until new connections get this certificate, and returns its serial number. */
  function served(port: number, issued: Issued): Promise<string> {
    return eventually(async () => {
      const { serial } = await get(port);
      expect(serial).toBe(serialOf(issued));
      return serial;
    });
  }

  test("new connections get the new certificate, and open ones stay", async () => {
    await using server = await open();
    const session = http2.connect(server.url, client);
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    const before = await get(server.port, { ...client, agent });
    expect(await text(session.request({ ":path": "/auth/login" }))).toBe(login);

    const next = issueServer(authority);
    await writeFile(server.certFile, next.cert);
    await writeFile(server.keyFile, next.key);
    expect(await served(server.port, next)).toBe(serialOf(next));
    expect(await text(session.request({ ":path": "/auth/login" }))).toBe(login);
    expect(await get(server.port, { ...client, agent })).toEqual(before);
    session.destroy();
    agent.destroy();
  });

  test("a certificate without its key is not used until the key is there too", async () => {
    const first = issueServer(authority);
    await using server = await open({ server: first });
    const next = issueServer(authority);
    await writeFile(server.certFile, next.cert);
    await server.logged(/the previous ones stay in use tls\.keyFile: is not the key of the certificate/);
    expect((await get(server.port)).serial).toBe(serialOf(first));

    await writeFile(server.keyFile, next.key);
    expect(await served(server.port, next)).toBe(serialOf(next));
  });

  test.each([
    [
      "do not exist",
      (server: Awaited<ReturnType<typeof open>>) => rm(server.keyFile),
      /tls\.keyFile: \S+ can't be read \(ENOENT\)/,
    ],
    [
      "are no PEM",
      (server: Awaited<ReturnType<typeof open>>) => writeFile(server.certFile, "-----BEGIN"),
      /tls\.certFile: must contain certificates in PEM format/,
    ],
    [
      "have expired",
      async (server: Awaited<ReturnType<typeof open>>) => {
        const expired = issueServer(authority, { to: daysFromNow(-0.5) });
        await writeFile(server.certFile, expired.cert);
        await writeFile(server.keyFile, expired.key);
      },
      /tls\.certFile: the certificate expired on .*: renew it/,
    ],
  ])("files that %s are not used", async (_name, change, reason) => {
    const first = issueServer(authority);
    await using server = await open({ server: first });
    await change(server);
    await server.logged(reason);
    expect((await get(server.port)).serial).toBe(serialOf(first));
  });

  test("a symbolic link replaced in their path is detected, as in Kubernetes", async () => {
    await using server = await open();
    const mount = join(server.directory, "mount");
    const version = async (name: string, { cert, key }: Issued): Promise<void> => {
      await mkdir(join(mount, name), { recursive: true });
      await writeFile(join(mount, name, "tls.crt"), cert);
      await writeFile(join(mount, name, "tls.key"), key);
      await symlink(name, join(mount, "..next"));
      await rename(join(mount, "..next"), join(mount, "..data"));
    };
    const [first, second] = [issueServer(authority), issueServer(authority)];
    await version("..2026_1", first);
    for (const file of ["tls.crt", "tls.key"]) {
      await symlink(join("..data", file), join(mount, file));
      await symlink(join("mount", file), join(server.directory, `..${file}`));
      await rename(join(server.directory, `..${file}`), join(server.directory, file));
    }
    expect(await served(server.port, first)).toBe(serialOf(first));
    await version("..2026_2", second);
    expect(await served(server.port, second)).toBe(serialOf(second));
  });

  test("clients of a removed authority are rejected, and those of the new one accepted", async () => {
    await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
    const others = createAuthority("Others");
    const [old, young] = [workloads.issue(), others.issue()];
    const status = (issued: Issued) =>
      get(server.port, { ...client, ...issued }).then(
        ({ status }) => status,
        () => 0,
      );
    expect([await status(old), await status(young)]).toEqual([200, 0]);
    await writeFile(server.clientCaFile, others.cert);
    await eventually(async () => expect([await status(old), await status(young)]).toEqual([0, 200]));
  });

  test("a session is not resumed after its authority was removed", async () => {
    await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
    const agent = new https.Agent({ maxCachedSessions: 10 });
    const old = { ...client, ...workloads.issue(), agent };
    expect(await get(server.port, old)).toMatchObject({ status: 200, resumed: false });
    expect(await get(server.port, old)).toMatchObject({ status: 200, resumed: true });
    await writeFile(server.clientCaFile, createAuthority("Others").cert);
    await server.logged(/the certificate files were reloaded/);
    expect((await failure(get(server.port, old))).code).toBe("ECONNRESET");
  });
});
