import type { Interceptor } from "@connectrpc/connect";
import type { FlowStore } from "../store/flow-store.ts";
import type { Store } from "../store/store.ts";

/** The `rev` of a revision that the client knows. */
const knownRevision = "service-known-revision";

/**
 * Lets clients that move between replicas read their own writes: if a client knows another revision than the active one,
 * its call waits until this replica has read the newest one.
 */
export function catchUpInterceptor(store: Pick<Store, "health"> & { readonly flows: FlowStore }): Interceptor {
  return (next) => async (request) => {
    const { header } = request;
    const { rev } = store.flows.active();
    const known = header.get(knownRevision);
    const cached = header.get("if-none-match");
    if (known !== null && known !== rev) {
      await store.flows.catchUp();
    } else if (cached !== null && !cached.includes(rev) && store.health().isUsable) {
      // Without the database, the flows in memory are the best answer to a conditional request.
      await store.flows.catchUp().catch(() => {});
    }
    return next(request);
  };
}
