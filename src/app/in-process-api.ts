import { type DescMethod, create } from "@bufbuild/protobuf";
import {
  type ConnectRouter,
  type ContextValues,
  createHandlerContext,
  createMethodImplSpec,
  createServiceImplSpec,
  type HandlerContext,
  type MethodImplSpec,
  type Transport,
} from "@connectrpc/connect";
import type { Gate } from "../server/pipeline/errors.ts";

type InProcessApiOptions = {
  /** Registers the services. */
  readonly routes: (router: ConnectRouter) => unknown;
  /** Each call passes it. */
  readonly gate: Gate;
  /** Converts the errors of the gate and of methods. */
  readonly toError: (error: unknown, context: HandlerContext) => Error;
};

/** Calls the services of the API in process. Messages are passed without a copy. */
export class InProcessApi {
  readonly #gate: Gate;
  readonly #toError: InProcessApiOptions["toError"];
  readonly #specs: ReadonlyMap<DescMethod, MethodImplSpec>;

  constructor({ routes, gate, toError }: InProcessApiOptions) {
    this.#gate = gate;
    this.#toError = toError;
    this.#specs = collect(routes);
  }

  /** A transport for the calls of a caller, which has set these values. `disconnected` ends all of them. */
  transport(values: ContextValues, disconnected?: AbortSignal): Transport {
    const begin = (method: DescMethod, signal: AbortSignal | undefined) =>
      createHandlerContext({
        service: method.parent,
        method,
        // The gateway's name of REST.
        protocolName: "http",
        requestMethod: "POST",
        url: "",
        ...(signal && { requestSignal: signal }),
        ...(disconnected && { shutdownSignal: disconnected }),
        contextValues: values,
      });
    return {
      unary: async (method, signal, _timeoutMs, _header, input) => {
        const context = begin(method, signal);
        try {
          await this.#gate(context);
          const impl = this.#find(method).impl as Implementation<Promise<object>>;
          const message = create(method.output, (await impl(create(method.input, input) as never, context)) as never);
          return { stream: false, message, ...describe(method, context) };
        } catch (error) {
          throw this.#toError(error, context);
        } finally {
          context.abort();
        }
      },
      stream: async (method, signal, _timeoutMs, _header, inputs) => {
        const context = begin(method, signal);
        try {
          await this.#gate(context);
          const impl = this.#find(method).impl as Implementation<AsyncIterable<never>>;
          for await (const input of inputs) {
            const messages = impl(create(method.input, input) as never, context);
            return { stream: true, message: this.#read(messages, context), ...describe(method, context) };
          }
          throw new TypeError(`${method.name} streams requests, which is not supported`);
        } catch (error) {
          context.abort();
          throw this.#toError(error, context);
        }
      },
    };
  }

  async *#read<T>(messages: AsyncIterable<T>, context: Context): AsyncGenerator<T> {
    const iterator = messages[Symbol.asyncIterator]();
    const { signal } = context;
    const end = (): void => void iterator.return?.();
    signal.addEventListener("abort", end);
    if (signal.aborted) {
      end();
    }
    try {
      yield* { [Symbol.asyncIterator]: () => iterator };
    } catch (error) {
      throw this.#toError(error, context);
    } finally {
      context.abort();
    }
  }

  #find(method: DescMethod): MethodImplSpec {
    const spec = this.#specs.get(method);
    if (spec === undefined) {
      throw new TypeError(`${method.parent.typeName}.${method.name} is not registered`);
    }
    return spec;
  }
}

type Context = ReturnType<typeof createHandlerContext>;

type Implementation<Result> = (request: never, context: HandlerContext) => Result;

/** The properties of every response. */
function describe<M extends DescMethod>(method: M, { responseHeader, responseTrailer }: Context) {
  return { service: method.parent, method, header: responseHeader, trailer: responseTrailer };
}

function collect(routes: InProcessApiOptions["routes"]): ReadonlyMap<DescMethod, MethodImplSpec> {
  const specs = new Map<DescMethod, MethodImplSpec>();
  const router: ConnectRouter = {
    handlers: [],
    service(service, implementation) {
      for (const spec of Object.values(createServiceImplSpec(service, implementation).methods)) {
        specs.set(spec.method, spec);
      }
      return router;
    },
    rpc(method, implementation) {
      specs.set(method, createMethodImplSpec(method, implementation));
      return router;
    },
  };
  routes(router);
  return specs;
}
