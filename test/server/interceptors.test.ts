import { Code, ConnectError, createContextValues, type StreamResponse, type UnaryResponse } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { peerKey } from "../../src/auth/principal.ts";
import { FlowgateError } from "../../src/errors.ts";
import { failureInterceptor } from "../../src/server/interceptors.ts";
import { createLog } from "../../src/server/log.ts";

type Next = Parameters<ReturnType<typeof failureInterceptor>>[0];

/** No service of the contract streams yet, so the interceptor is called as Connect would. */
function run(next: (request: unknown) => Promise<unknown>, signal = new AbortController().signal) {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ level: "info", destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const contextValues = createContextValues().set(peerKey, { address: "", requestId: "r1" });
  const request = { stream: true, service: AuthService, method: AuthService.method.getLogin, contextValues, signal };
  const call = failureInterceptor(log)(next as Next) as (request: unknown) => Promise<UnaryResponse | StreamResponse>;
  return { lines, response: call(request) };
}

async function* failing(error: unknown) {
  yield "first";
  throw error;
}

async function drain(response: UnaryResponse | StreamResponse): Promise<unknown> {
  const received: unknown[] = [];
  try {
    for await (const message of response.message as AsyncIterable<unknown>) {
      received.push(message);
    }
  } catch (error) {
    return { received, error };
  }
  return { received };
}

test("a stream that fails while it is read is answered and logged as a call is, once", async () => {
  const { lines, response } = run(async () => ({ stream: true, message: failing(new TypeError("inside")) }));
  const message = "internal error; the log has the details under request r1";
  expect(await drain(await response)).toMatchObject({
    received: ["first"],
    error: { code: Code.Internal, rawMessage: message },
  });
  expect(lines).toMatchObject([
    { requestId: "r1", procedure: "flowgate.v1.AuthService/GetLogin", err: { message: "inside" } },
  ]);
});

test("a ConnectError passes as it is, and is not logged", async () => {
  const error = new ConnectError("gone", Code.NotFound);
  const { lines, response } = run(async () => ({ stream: true, message: failing(error) }));
  expect(await drain(await response)).toEqual({ received: ["first"], error });
  const unary = run(() => Promise.reject(error));
  await expect(unary.response).rejects.toBe(error);
  expect([...lines, ...unary.lines]).toEqual([]);
});

test("a FlowgateError becomes a ConnectError with its code, and is not logged", async () => {
  const error = new FlowgateError("version_mismatch", "the active revision is a");
  const expected = { code: Code.Aborted, rawMessage: error.message, cause: error };
  const { lines, response } = run(async () => ({ stream: true, message: failing(error) }));
  expect(await drain(await response)).toMatchObject({ received: ["first"], error: expected });
  const unary = run(() => Promise.reject(error));
  await expect(unary.response).rejects.toMatchObject(expected);
  expect([...lines, ...unary.lines]).toEqual([]);
});

test("a call that its client gave up is no bug of ours", async () => {
  const controller = new AbortController();
  controller.abort(new ConnectError("the client left", Code.Canceled));
  const aborted = Object.assign(new Error("aborted"), { name: "AbortError" });
  const { lines, response } = run(() => Promise.reject(aborted), controller.signal);
  await expect(response).rejects.toMatchObject({ code: Code.Canceled });
  expect(lines).toEqual([]);
  const bug = run(() => Promise.reject(aborted));
  await expect(bug.response).rejects.toMatchObject({ code: Code.Internal });
  expect(bug.lines).toHaveLength(1);
});

test("an interceptor that throws at once is heard as one that rejects", () => {
  const call = (): unknown =>
    run(() => {
      throw new TypeError("inside");
    });
  expect(call).toThrow("internal error; the log has the details under request r1");
});
