import { createConnectQueryKey } from "@connectrpc/connect-query";
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { RevisionsService } from "@flowgate/client";
import { refresh } from "../../src/api/refresh.ts";

const method = RevisionsService.method.listRevisions;

/** A client with one observed query, each request of which is answered by the test. */
function observe() {
  const requests: PromiseWithResolvers<string>[] = [];
  const queries = new QueryClient();
  const observer = new QueryObserver<string>(queries, {
    queryKey: createConnectQueryKey({ schema: method, cardinality: "finite" }),
    queryFn: () => {
      const request = Promise.withResolvers<string>();
      requests.push(request);
      return request.promise;
    },
  });
  const end = observer.subscribe(() => {});
  return { queries, requests, data: () => observer.getCurrentResult().data, [Symbol.dispose]: end };
}

test("a change during the first request is shown by another request", async () => {
  using query = observe();
  const refreshed = refresh(query.queries, method);
  query.requests[0]?.resolve("before the change");
  await expect.poll(() => query.requests.length).toBe(2);
  query.requests[1]?.resolve("after it");
  await refreshed;
  expect(query.data()).toBe("after it");
  expect(query.requests).toHaveLength(2);
});

test("changes during a request need one more, however many they are, and do not cancel it", async () => {
  using query = observe();
  query.requests[0]?.resolve("first");
  await expect.poll(query.data).toBe("first");
  const refreshed = Promise.all([1, 2, 3].map(() => refresh(query.queries, method)));
  query.requests[1]?.resolve("between");
  await expect.poll(query.data).toBe("between");
  await expect.poll(() => query.requests.length).toBe(3);
  query.requests[2]?.resolve("last");
  await refreshed;
  expect(query.data()).toBe("last");
  expect(query.requests).toHaveLength(3);
});

test("a change without a request is one request", async () => {
  using query = observe();
  query.requests[0]?.resolve("first");
  await expect.poll(query.data).toBe("first");
  const refreshed = refresh(query.queries, method);
  query.requests[1]?.resolve("second");
  await refreshed;
  expect(query.data()).toBe("second");
  expect(query.requests).toHaveLength(2);
});
