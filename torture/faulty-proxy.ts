import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";

/** What it does with the events of one deployment: "swaps" sends them after the next one. */
export type Fault = "loses" | "repeats" | "swaps";

/** A proxy of streams over SSE, which is faulty in each of them once. */
export async function openFaultyProxy(url: string, fault: Fault): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    const { method = "GET", headers } = request;
    const upstream = httpRequest(`${url}${request.url ?? ""}`, { method, headers });
    upstream.on("response", (reply) => {
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      const change = changeEvents(fault);
      reply.setEncoding("utf8").on("data", (chunk: string) => response.write(change(chunk)));
    });
    upstream.on("error", () => response.destroy());
    response.on("close", () => void upstream.destroy());
    upstream.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Changes the events of the fifth deployment in the chunks of a stream. */
function changeEvents(fault: Fault): (chunk: string) => string {
  const revs = new Set<string>();
  let [rest, held] = ["", ""];
  return (chunk) => {
    const parts = `${rest}${chunk}`.split("\n\n");
    rest = parts.pop() ?? "";
    const changed = parts.map((part) => {
      const [rev] = /(?<=event: deployment\n.*"rev":")[^"]+/s.exec(part) ?? [];
      const text = `${part}\n\n`;
      if (rev === undefined) {
        return text;
      }
      if ([...revs.add(rev)].indexOf(rev) !== 4) {
        const late = held;
        held = "";
        return text + late;
      }
      held += fault === "swaps" ? text : "";
      return fault === "repeats" ? text + text : "";
    });
    return changed.join("");
  };
}
