import type { DescMethodUnary, DescService } from "@bufbuild/protobuf";
import {
  createMethodImplSpec,
  createServiceImplSpec,
  type ConnectRouter,
  type ConnectRouterOptions,
  type MethodImplSpec,
} from "@connectrpc/connect";
import type { UnaryFunction } from "./invoke.ts";

export type Implementation = {
  readonly kind: "unary";
  readonly method: DescMethodUnary;
  readonly call: UnaryFunction;
  readonly options: RegistrationOptions;
};

type RegistrationOptions = Partial<ConnectRouterOptions>;

// Distributes over the kinds of StreamSpec, so that method and call fit together.
export type StreamImplementation = StreamSpec extends infer Spec
  ? Spec extends StreamSpec
    ? {
        readonly kind: Spec["kind"];
        readonly method: Spec["method"];
        readonly call: Spec["impl"];
        readonly options: RegistrationOptions;
      }
    : never
  : never;

type StreamSpec = Exclude<MethodImplSpec, { kind: "unary" }>;

type Routes = (router: ConnectRouter) => unknown;

const collectedOf = new WeakMap<Routes, readonly (Implementation | StreamImplementation)[]>();

/**
 * Calls the function that registers services with Connect, and returns all registered RPCs, with or without a google.api.http rule.
 * A function is called once, whatever the number of gateways and documents, so that all of them have the same implementations.
 */
export function collectImplementations(routes: Routes): readonly (Implementation | StreamImplementation)[] {
  let collected = collectedOf.get(routes);
  if (collected === undefined) {
    collected = callRoutes(routes);
    collectedOf.set(routes, collected);
  }
  return collected;
}

function callRoutes(routes: Routes): (Implementation | StreamImplementation)[] {
  const collected: (Implementation | StreamImplementation)[] = [];
  let isCollected = false;
  const add = (spec: MethodImplSpec, options: RegistrationOptions = {}): void => {
    if (isCollected) {
      throw new Error(
        `the option routes has registered rpc ${spec.method.parent.typeName}.${spec.method.name} too late: it must register all RPCs before it returns, without waiting`,
      );
    }
    const { kind, method, impl } = spec;
    collected.push({ kind, method, call: impl, options } as Implementation | StreamImplementation);
  };
  const router: ConnectRouter = {
    handlers: [],
    service(service: DescService, implementation, options) {
      const { methods } = createServiceImplSpec(service, implementation);
      for (const spec of Object.values(methods)) {
        add(spec, options);
      }
      return router;
    },
    rpc(method, implementation, options) {
      add(createMethodImplSpec(method, implementation), options);
      return router;
    },
  };
  routes(router);
  isCollected = true;
  return collected;
}
