// The same two operations, by the transcoder beside Connect's own plugin, or by bare Fastify routes that read the
// same and answer the same bytes. Argument: which of the two.
import type { ConnectRouter } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { fastify, type FastifyInstance } from "fastify";
import { ThingsService } from "../gen/transcodingtest/v1/things_pb.ts";
import { fastifyTranscodingPlugin } from "../src/transcoding/index.ts";

function routes(router: ConnectRouter): void {
  router.service(ThingsService, {
    sendForm: ({ userName, age, admin }) => ({ userName, age, admin }),
    echoThing: ({ thing }) => ({ thing }),
  });
}

function serveTranscoded(app: FastifyInstance): void {
  const service = ThingsService.typeName;
  const rules = [
    { selector: `${service}.OpenThing` },
    { selector: `${service}.GetHeaders` },
    { selector: `${service}.SendForm`, pattern: { case: "get", value: "/users/{user_name}" } },
  ] as const;
  app.register(fastifyConnectPlugin, { routes });
  app.register(fastifyTranscodingPlugin, { routes, rules });
}

type UserRequest = { Params: { name: string }; Querystring: { age: string; admin: string } };
type Thing = { text: string; flag: boolean; small: number; texts: string[] };

function serveBare(app: FastifyInstance): void {
  app.get<UserRequest>("/users/:name", async ({ params, query }) => ({
    userName: params.name,
    age: Number(query.age),
    admin: query.admin === "true",
  }));
  app.post<{ Body: Thing }>("/things/echo", async ({ body: { text, flag, small, texts } }) => ({
    text,
    flag,
    small,
    texts,
  }));
}

const app = fastify();
(process.argv[2] === "bare" ? serveBare : serveTranscoded)(app);
process.stdout.write(`listens on ${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => void app.close());
