import type { DescMethod } from "@bufbuild/protobuf";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import type { RequestContext } from "./request-context.ts";

/** The handler of a request, with its properties. */
export type Route = {
  /** The protocol family, which determines the format of errors. */
  readonly kind: "rpc" | "rest" | "endpoint";
  /** The RPC method; undefined for other routes. */
  readonly method: DescMethod | undefined;
  /** The URL template, if there is one. */
  readonly template?: string | undefined;
  /** Exempt from load shedding. */
  readonly isExempt: boolean;
  /** Serves the request; must not throw or reject. */
  serve(request: RequestContext): TranscodingResponse | Promise<TranscodingResponse>;
};
