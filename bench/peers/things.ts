// Two small operations: by the transcoder, by Connect's own plugin, or by bare Fastify routes with the same requests and
// responses. Argument: transcoder, connect or fastify.
import type { ConnectRouter } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { fastify, type FastifyInstance } from "fastify";
import { ThingsService } from "../../packages/transcoding/test/gen/transcodingtest/v1/things_pb.ts";
import { fastifyTranscodingPlugin } from "@flowgate/transcoding/fastify";

function routes(router: ConnectRouter): void {
  router.service(ThingsService, {
    sendForm: ({ userName, age, admin }) => ({ userName, age, admin }),
    echoThing: ({ thing }) => ({ thing }),
  });
}

type UserRequest = { Params: { name: string }; Querystring: { age: string; admin: string } };
type Thing = { text: string; flag: boolean; small: number; texts: string[] };

const stacks: Record<string, (app: FastifyInstance) => void> = {
  transcoder(app) {
    const service = ThingsService.typeName;
    const rules = [
      { selector: `${service}.OpenThing` },
      { selector: `${service}.GetHeaders` },
      { selector: `${service}.SendForm`, pattern: { case: "get", value: "/users/{user_name}" } },
    ] as const;
    app.register(fastifyTranscodingPlugin, { routes, rules });
  },
  connect(app) {
    app.register(fastifyConnectPlugin, { routes });
  },
  fastify(app) {
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
  },
};

const app = fastify();
stacks[process.argv[2] ?? ""]?.(app);
process.stdout.write(`listens on ${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => void app.close());
