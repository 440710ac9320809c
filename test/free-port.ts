import { once } from "node:events";
import { createServer } from "node:net";

const found = new Set<number>();

/** A port of 127.0.0.1 below the ephemeral range, so that no other process gets it by chance. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    // A port found before is still free until its user listens.
    if (found.has(port)) {
      continue;
    }
    const server = createServer();
    try {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      server.close();
      await once(server, "close");
      found.add(port);
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") {
        throw error;
      }
    }
  }
}
