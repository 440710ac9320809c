import { equals, type DescMethod, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { createGateway, type Rule } from "../../../src/index.ts";
import { bindingsOf } from "../../bindings.ts";
import { createRequest } from "../../service.ts";
import { createSample } from "./sample.ts";

/** The result of a request for each binding of some methods. */
export type Sweep = {
  readonly bindings: number;
  /** The bindings whose request did not reach their method, or with another message. */
  readonly wrong: readonly string[];
};

/** Sends a request for each binding in the annotations to a transcoder, whose own rules can be replaced by `rules`. */
export async function sweep(methods: readonly DescMethod[], rules: readonly Rule[] = []): Promise<Sweep> {
  let received: Received | undefined;
  const { handle } = createGateway({
    googleTemplates: true,
    rules,
    routes: (router) => recordCalls(router, methods, (call) => (received = call)),
  });
  const wrong: string[] = [];
  let bindings = 0;
  for (const method of methods) {
    for (const binding of bindingsOf(method)) {
      const { httpMethod, target, body, message } = createSample(method, binding);
      const [isInputStream] = streamsOf[method.methodKind];
      received = undefined;
      // Bidirectional streams need HTTP/2, and a client stream in JSON is an array.
      await handle({ ...createRequest(httpMethod, target, isInputStream ? `[${body}]` : body), httpVersionMajor: 2 });
      bindings++;
      if (!isReceived(received, method, message)) {
        wrong.push(`${method.parent.typeName}.${method.name}: ${binding.httpMethod} ${binding.template}`);
      }
    }
  }
  return { bindings, wrong };
}

type Received = { readonly method: DescMethod; readonly message: Message | undefined };

function isReceived(received: Received | undefined, method: DescMethod, message: Message): boolean {
  return (
    received?.method === method && received.message !== undefined && equals(method.input, received.message, message)
  );
}

/** Registers implementations that fail after they have received a message. */
function recordCalls(
  router: ConnectRouter,
  methods: readonly DescMethod[],
  record: (received: Received) => void,
): void {
  for (const method of methods) {
    const [isInputStream, isOutputStream] = streamsOf[method.methodKind];
    const receive = async (input: Message | AsyncIterable<Message>): Promise<never> => {
      record({ method, message: isInputStream ? await first(input as AsyncIterable<Message>) : (input as Message) });
      throw new ConnectError("recorded", Code.Aborted);
    };
    const implementation = isOutputStream
      ? async function* (input: Message | AsyncIterable<Message>): AsyncGenerator<Message> {
          yield await receive(input);
        }
      : receive;
    router.rpc(method as never, implementation as never);
  }
}

const streamsOf = {
  unary: [false, false],
  server_streaming: [false, true],
  client_streaming: [true, false],
  bidi_streaming: [true, true],
} as const satisfies Record<DescMethod["methodKind"], readonly [input: boolean, output: boolean]>;

async function first<T>(items: AsyncIterable<T>): Promise<T | undefined> {
  for await (const item of items) {
    return item;
  }
  return undefined;
}
