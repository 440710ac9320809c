import type { DescMethod } from "@bufbuild/protobuf";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import type { RequestContext } from "./request-context.ts";

/** Where a request leads. */
export type Route = {
  /** The protocol family, which decides the shape of a refusal. */
  readonly kind: "rpc" | "rest" | "endpoint";
  /** undefined: no RPC. */
  readonly method: DescMethod | undefined;
  /** The URL template, if there is one. */
  readonly template?: string | undefined;
  /** Served under load, too. */
  readonly isExempt: boolean;
  /** Serves the request; must not throw or reject. */
  serve(request: RequestContext): TranscodingResponse | Promise<TranscodingResponse>;
};
