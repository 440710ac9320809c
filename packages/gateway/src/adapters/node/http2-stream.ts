import type { ServerHttp2Stream } from "node:http2";

/** Only ServerHttp2Stream has `sentHeaders`; the objects of the compatibility API do not. */
export function isHttp2Stream(value: object): value is ServerHttp2Stream {
  return "sentHeaders" in value;
}
