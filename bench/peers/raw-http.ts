// Raw node:http: returns the bytes of a file, or 304 for its entity tag. Arguments: the file, its media type, the tag.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const [file = "", contentType = "", etag = ""] = process.argv.slice(2);
const body = readFileSync(file);
const server = createServer((request, response) => {
  if (request.headers["if-none-match"] === etag) {
    response.writeHead(304, { etag }).end();
  } else {
    response.writeHead(200, { "content-type": contentType, "content-length": body.length, etag }).end(body);
  }
});
await once(server.listen(0, "127.0.0.1"), "listening");
process.stdout.write(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
process.once("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});
