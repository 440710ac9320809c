// Bare TCP sockets instead of streams: POST /flows writes one frame to each socket that has sent GET /events. A server with a connection per
// stream can't be cheaper than this loop. Argument: the size of the frame in bytes.
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

const streams = new Set<Socket>();
const event = "event: deployment\n";
const frame = Buffer.from(event.padEnd(Number(process.argv[2]), "."));

const server = createServer({ noDelay: true }, (socket) => {
  socket.on("error", () => {});
  socket.on("close", () => streams.delete(socket));
  socket.on("data", (request) => {
    if (request.toString("latin1").startsWith("GET ")) {
      streams.add(socket);
      socket.write("HTTP/1.1 200 OK\r\n\r\nevent: snapshot_end\n");
    } else {
      for (const stream of streams) {
        stream.write(frame);
      }
      socket.end("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    }
  });
});
await once(server.listen(0, "127.0.0.1"), "listening");
process.stdout.write(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
process.once("SIGTERM", () => {
  server.close();
  streams.forEach((socket) => socket.destroy());
});
