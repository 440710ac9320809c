import type { DescMethodUnary, DescService } from "@bufbuild/protobuf";
import {
  createMethodImplSpec,
  createServiceImplSpec,
  type ConnectRouter,
  type MethodImplSpec,
} from "@connectrpc/connect";
import type { UnaryImplementation } from "./call.ts";
import { httpRule } from "./rules.ts";

/** A unary RPC that has a google.api.http rule, and what implements it. */
export type Implementation = {
  readonly method: DescMethodUnary;
  readonly call: UnaryImplementation;
};

/**
 * Runs the function that registers services with Connect, and keeps what it registers. Options given
 * with a registration are of Connect's protocols, and are not looked at.
 */
export function collectImplementations(routes: (router: ConnectRouter) => unknown): Implementation[] {
  const found: Implementation[] = [];
  const add = (spec: MethodImplSpec): void => {
    if (httpRule(spec.method) === undefined) {
      return;
    }
    if (spec.kind !== "unary") {
      throw new Error(`${spec.method.toString()}: google.api.http on a streaming method is not supported yet`);
    }
    found.push({ method: spec.method, call: spec.impl });
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
