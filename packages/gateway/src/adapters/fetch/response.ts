import { encodeUtf8 } from "#platform/bytes";
import type { GatewayResponse } from "../../http/response.ts";
import { setContentLength } from "../content-length.ts";

/** Creates the Response of a server. Its stream applies backpressure, and cancelling it ends the call. */
export function createResponse(result: GatewayResponse, httpMethod: string): Response {
  setContentLength(result, httpMethod);
  const { status, headers, body } = result;
  // Cloudflare Workers compress a body with Content-Encoding, unless `encodeBody` is "manual".
  const init = { status, headers: headersOf(headers), encodeBody: "manual" };
  if (status === 204 || status === 205 || status === 304) {
    return new Response(null, init);
  }
  if (body === undefined || httpMethod === "HEAD") {
    // Servers would add a Content-Length of 0 for null, which is wrong for the header of a stream.
    return new Response(headers["content-length"] === undefined ? emptyStream() : null, init);
  }
  return new Response(
    typeof body === "string" ? body : body instanceof Uint8Array ? (body as Uint8Array<ArrayBuffer>) : streamOf(body),
    init,
  );
}

/** The same object if each header has one value, which servers write without creating Headers. */
function headersOf(headers: GatewayResponse["headers"]): Headers | Record<string, string> {
  const values = Object.values(headers);
  if (values.every((value) => typeof value === "string")) {
    return headers as Record<string, string>;
  }
  const all = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const each of [value].flat()) {
      all.append(name, each);
    }
  }
  return all;
}

function emptyStream(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.close() }, { highWaterMark: 0 });
}

function streamOf(body: AsyncIterable<string | Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await iterator.next();
          if (done === true) {
            controller.close();
          } else if (value.length > 0) {
            controller.enqueue(typeof value === "string" ? encodeUtf8(value) : value);
          }
        } catch {
          // Servers discard chunks that they have not sent yet when a stream fails. The last one has the error.
          await new Promise((resolve) => setTimeout(resolve));
          // Servers log this error, and some send its message.
          controller.error(new Error("the stream of responses has ended with an error"));
        }
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}
