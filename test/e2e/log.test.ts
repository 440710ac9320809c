import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { deploy } from "./deploy.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

type Line = Readonly<Record<string, unknown>>;

/** The lines of JSON that a service has logged. */
function linesOf(service: Service, chosen: (line: Line) => boolean): Line[] {
  return service
    .log()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line)
    .filter(chosen);
}

test("the start is logged too, in addition to the text on stdout", async () => {
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as Line;
  await using service = await startService({ config: { ...withoutRuntime, metrics: { port: 0 } } });
  await service.untilLogged(/"msg":"started"/);
  expect(linesOf(service, ({ msg }) => msg === "started")).toMatchObject([
    {
      level: "info",
      version,
      url: service.url,
      consoleUrl: `${service.url}/console`,
      docsUrl: `${service.url}/docs`,
      metricsUrl: expect.stringMatching(/\/metrics$/),
    },
  ]);
});

test("state changes of the runtime are logged, and can't be forged by flows", async () => {
  await using service = await startService({ config: { runtime: { freshProcess: "never" } } });
  const running = "the flow runtime is running";
  const forger = functionNode("f", { z: "T", initialize: `node.log("${running}"); node.warn("forged")` });
  for (const flows of [[tab("T")], [tab("T"), tab("U")], [tab("T"), forger]]) {
    await deploy(service, { flows });
  }
  await service.untilLogged(/forged[^]*"msg":"deployed"/);
  const lines = linesOf(service, ({ msg }) => String(msg).includes(running));
  expect(lines.map(({ source }) => source)).toEqual(["runtime", "flows"]);
  expect(linesOf(service, ({ msg }) => msg === "deployed")).toHaveLength(3);
});

test("a lockout after failed logins is logged, without the user name", async () => {
  await using service = await startService({
    config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] } },
  });
  const fail = (username: string) =>
    service.send("POST", "/auth/token", {
      headers: json,
      body: JSON.stringify(tokenParameters({ username, password: "wrong" })),
    });
  for (let time = 0; time < 7; time += 1) {
    await fail("mistyped-password");
  }
  await fail("another");
  // Other users can still log in.
  await deploy(service, { flows: [] }, "full", bearer(await login(service, {})));
  await service.untilLogged(/"msg":"deployed"/);
  expect(linesOf(service, ({ msg }) => /failed logins/.test(String(msg)))).toMatchObject([
    { level: "info", locked: "user", client: "127.0.0.1" },
  ]);
  expect(service.log()).not.toContain("mistyped-password");
});
