import { once } from "node:events";
import http2 from "node:http2";
import https from "node:https";
import { text } from "node:stream/consumers";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import type { TlsOptions } from "../../../src/server/http/tls.ts";
import { createAuthority, daysFromNow, type Issued } from "../../certificates.ts";
import { workloads, client, open, get, login, failure } from "./open-tls.ts";

describe("client certificates", () => {
  const certificates: Record<string, Issued | undefined> = {
    good: workloads.issue(),
    none: undefined,
    "of another authority": createAuthority("Workloads").issue(),
    expired: workloads.issue({ to: daysFromNow(-0.5) }),
    "not yet valid": workloads.issue({ from: daysFromNow(0.5) }),
  };

  /** Which of them are accepted over both versions. */
  async function admitted(clientCertificate: TlsOptions["clientCertificate"]): Promise<string[]> {
    await using server = await open({
      ...(clientCertificate !== "none" && { clientCa: workloads.cert }),
      clientCertificate,
    });
    const names: string[] = [];
    for (const [name, issued] of Object.entries(certificates)) {
      const options = { ...client, ...issued };
      const one = await get(server.port, options).then(
        ({ status }) => status === 200,
        () => false,
      );
      const two = await createClient(AuthService, createGrpcTransport({ baseUrl: server.url, nodeOptions: options }))
        .getLogin({}, { timeoutMs: 5_000 })
        .then(
          () => true,
          () => false,
        );
      expect(two).toBe(one);
      if (one) {
        names.push(name);
      }
    }
    return names;
  }

  test("must be valid if they are required", async () => {
    expect(await admitted("require")).toEqual(["good"]);
  });

  test("may be absent but not invalid if they are requested", async () => {
    expect(await admitted("request")).toEqual(["good", "none"]);
  });

  test("are not requested by default, so that the clients rejected above are accepted", async () => {
    expect(await admitted("none")).toEqual(Object.keys(certificates));
  });
});

test("a connection accepts no more calls once its client certificate has expired", async () => {
  await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
  const brief = { ...client, ...workloads.issue({ to: new Date(Date.now() + 3_000) }) };
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  expect(await get(server.port, { ...brief, agent })).toMatchObject({ body: login, closes: false });
  const ending = http2.connect(server.url, brief);
  expect(await text(ending.request({ ":path": "/auth/login" }))).toBe(login);
  const lasting = http2.connect(server.url, { ...client, ...workloads.issue() });
  expect(await text(lasting.request({ ":path": "/auth/login" }))).toBe(login);

  await once(ending, "close");
  expect(await text(lasting.request({ ":path": "/auth/login" }))).toBe(login);
  // HTTP/1.1 can announce that only in a response.
  expect(await get(server.port, { ...brief, agent })).toMatchObject({ body: login, closes: true });
  expect((await failure(get(server.port, brief))).code).toBe("ECONNRESET");
  // The agent has a session that was valid, and resumes it.
  expect((await failure(get(server.port, { ...brief, agent }))).code).toBe("ECONNRESET");
  lasting.destroy();
  agent.destroy();
});
