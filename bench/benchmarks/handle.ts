import type { Transcoder, TranscodingRequest } from "@flowgate/transcoding";

export type Request = {
  readonly target: string;
  readonly headers?: TranscodingRequest["headers"];
  /** Makes it a POST. */
  readonly body?: Buffer;
};

/** One call of a transcoder without a server around it. */
export async function handle(transcoder: Transcoder, { target, headers = {}, body }: Request): Promise<void> {
  const { status } = await transcoder.handle({
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
