import type { Gateway, GatewayRequest } from "@flowgate/gateway";

export type Request = {
  readonly target: string;
  readonly headers?: GatewayRequest["headers"];
  /** The request is a POST if there is a body. */
  readonly body?: Buffer;
};

/** Calls a gateway without a server. Rejects if the status is not 200. */
export async function handle(gateway: Gateway, { target, headers = {}, body }: Request): Promise<void> {
  const { status } = await gateway.handle({
    httpMethod: body === undefined ? "GET" : "POST",
    httpVersionMajor: 1,
    target,
    headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
    url: () => `http://localhost${target}`,
    contextValues: () => undefined,
    onAbort: () => {},
    hasBody: () => body !== undefined,
    readBody: async () => body ?? Buffer.alloc(0),
    async *streamBody() {},
  });
  if (status !== 200) {
    throw new Error(`${target}: ${status}`);
  }
}
