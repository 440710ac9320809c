import { create, type DescMethod, type Message } from "@bufbuild/protobuf";
import { mediaTypeOf } from "../../http/media-type.ts";
import type { Variant } from "../../routing/route.ts";
import { findRawBody } from "../../schema/http-body.ts";
import { unreadable, type DocumentReader } from "./document.ts";
import { createResponseHeaderReader } from "./headers.ts";

export type UnaryReader = (response: Response) => Promise<Message>;

export function createUnaryReader(method: DescMethod, variant: Variant, document: DocumentReader): UnaryReader {
  const { output } = method;
  const raw = findRawBody(output, variant.responseBody);
  const setHeaderFields = createResponseHeaderReader(method);
  const readBody: UnaryReader =
    raw === undefined
      ? async (response) => {
          const text = await response.text();
          return text === "" ? create(output) : document.read(document.parse(assertJson(response, text)));
        }
      : async (response) => {
          const data = new Uint8Array(await response.arrayBuffer());
          return raw.wrap({ contentType: response.headers.get("content-type") ?? "", data });
        };
  return async (response) => {
    const message = await readBody(response);
    setHeaderFields(message, response.headers);
    return message;
  };
}

/** True if a Content-Type is JSON; a missing one counts as JSON. */
export function isJson(contentType: string | null): boolean {
  const mediaType = mediaTypeOf(contentType ?? "application/json");
  return mediaType === "application/json" || mediaType.endsWith("+json");
}

/** Returns the text of a response that is JSON by its Content-Type. */
function assertJson({ headers }: Response, text: string): string {
  const contentType = headers.get("content-type");
  if (!isJson(contentType)) {
    throw unreadable(`it is ${contentType}, not application/json`);
  }
  return text;
}
