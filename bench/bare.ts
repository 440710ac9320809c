// A bare Fastify route: what the same bytes cost at least. Arguments: the file with the bytes, their media type.
import { readFileSync } from "node:fs";
import { fastify } from "fastify";

const [file = "", contentType = ""] = process.argv.slice(2);
const bytes = readFileSync(file);
// What is fastest for each: Node writes a short text in one piece with the head, and encodes a long one each time.
const body = bytes.length < 16 * 1024 ? bytes.toString("utf8") : bytes;
const app = fastify();
app.get("/*", (_request, reply) => reply.header("content-type", contentType).send(body));
process.stdout.write(`listens on ${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => void app.close());
