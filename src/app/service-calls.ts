import {
  type DescMessage,
  type DescMethod,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
  create,
} from "@bufbuild/protobuf";
import {
  type ConnectRouter,
  createHandlerContext,
  createMethodImplSpec,
  createServiceImplSpec,
  type HandlerContext,
  type MethodImplSpec,
} from "@connectrpc/connect";
import type { FastifyReply, FastifyRequest } from "fastify";
import { headersOf } from "../server/tools/access.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Gate } from "../server/pipeline/errors.ts";

type Routes = (router: ConnectRouter) => unknown;

/** Calls the services of the API in process, on behalf of a request to another listener. Each call passes the gate of that listener. */
export class ServiceCalls {
  readonly #gate: Gate;
  readonly #specs: ReadonlyMap<DescMethod, MethodImplSpec>;

  /** `routes` registers the services. */
  constructor(routes: Routes, gate: Gate) {
    this.#gate = gate;
    this.#specs = collect(routes);
  }

  /** The implementations of these methods. */
  specsOf(methods: readonly DescMethod[]): MethodImplSpec[] {
    return methods.map((method) => this.#find(method));
  }

  /** Rejects with the errors of the gate and of the method. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<MessageShape<O>> {
    const { impl } = this.#find(method) as unknown as {
      impl: (message: MessageShape<I>, context: HandlerContext) => Promise<MessageInitShape<O>>;
    };
    const disconnected = new AbortController();
    reply.raw.once("close", () => disconnected.abort(new FlowgateError("unavailable", "the client has disconnected")));
    const context = createHandlerContext({
      service: method.parent,
      method,
      // The gateway's name of REST.
      protocolName: "http",
      requestMethod: request.method,
      url: request.raw.url ?? "",
      requestHeader: headersOf(request.headers),
      requestSignal: disconnected.signal,
      contextValues: request.values,
    });
    await this.#gate(context);
    return create(method.output, await impl(create(method.input, input), context));
  }

  #find(method: DescMethod): MethodImplSpec {
    const spec = this.#specs.get(method);
    if (spec === undefined) {
      throw new TypeError(`${method.parent.typeName}.${method.name} is not registered`);
    }
    return spec;
  }
}

function collect(routes: Routes): ReadonlyMap<DescMethod, MethodImplSpec> {
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
