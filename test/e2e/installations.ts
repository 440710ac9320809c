import { createDatabase } from "../postgres/postgres.ts";
import { type Service, startService } from "./service.ts";

/** A service that runs flows, and the one that other clients call, which is the same or another replica. */
export type Installation = AsyncDisposable & { readonly service: Service; readonly other: Service };

/** What a test of the service runs on, by its title. */
export const installations: readonly (readonly [title: string, open: (config: object) => Promise<Installation>])[] = [
  ["on SQLite", openSingle],
  ["with two replicas", openReplicas],
];

async function openSingle(config: object): Promise<Installation> {
  const service = await startService({ config });
  return { service, other: service, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}

async function openReplicas(config: object): Promise<Installation> {
  await using stack = new AsyncDisposableStack();
  const { url: store } = stack.use(await createDatabase());
  const shared = { store, credentialSecret: "a secret that all replicas share", runtime: { mode: "one" }, ...config };
  const service = stack.use(await startService({ config: shared }));
  // It is on standby, since the first one is ready.
  const other = stack.use(await startService({ config: shared }));
  const services = stack.move();
  return { service, other, [Symbol.asyncDispose]: () => services.disposeAsync() };
}
