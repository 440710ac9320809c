import type { DescMethodUnary, DescService } from "@bufbuild/protobuf";
import {
  createMethodImplSpec,
  createServiceImplSpec,
  type ConnectRouter,
  type MethodImplSpec,
} from "@connectrpc/connect";
import type { UnaryImplementation } from "./call.ts";

/** A unary RPC, and what implements it. */
export type Implementation = {
  readonly kind: "unary";
  readonly method: DescMethodUnary;
  readonly call: UnaryImplementation;
};

/** An RPC that streams, and what implements it; `kind` says which side streams. */
export type StreamImplementation = StreamSpec extends infer Spec
  ? Spec extends StreamSpec
    ? { readonly kind: Spec["kind"]; readonly method: Spec["method"]; readonly call: Spec["impl"] }
    : never
  : never;

type StreamSpec = Exclude<MethodImplSpec, { kind: "unary" }>;

/**
 * Runs the function that registers services with Connect, and keeps what it registers, with or without a
 * google.api.http rule. Options given with a registration are of Connect's protocols, and are not looked at.
 */
export function collectImplementations(
  routes: (router: ConnectRouter) => unknown,
): (Implementation | StreamImplementation)[] {
  const found: (Implementation | StreamImplementation)[] = [];
  const add = (spec: MethodImplSpec): void => {
    found.push({ kind: spec.kind, method: spec.method, call: spec.impl } as Implementation | StreamImplementation);
  };
  const router: ConnectRouter = {
    handlers: [],
    service(service: DescService, implementation) {
      const { methods } = createServiceImplSpec(service, implementation);
      for (const spec of Object.values(methods)) {
        add(spec);
      }
      return router;
    },
    rpc(method, implementation) {
      add(createMethodImplSpec(method, implementation));
      return router;
    },
  };
  routes(router);
  return found;
}
