// Bare Fastify routes: GET returns the bytes of a file, POST parses JSON and returns an object. Arguments: the file and its
// media type.
import { readFileSync } from "node:fs";
import { fastify } from "fastify";
import { login } from "./login.ts";

const [file, contentType = ""] = process.argv.slice(2);
const app = fastify();
if (file !== undefined) {
  // A string, because Node writes a short string together with the header.
  const body = readFileSync(file, "utf8");
  app.get("/*", (_request, reply) => reply.header("content-type", contentType).send(body));
}
app.post("/*", async () => login);
process.stdout.write(`listens on ${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => void app.close());
