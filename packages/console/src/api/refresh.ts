import type { DescMethodUnary } from "@bufbuild/protobuf";
import { createConnectQueryKey } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";

/** Returns what reads these methods again: after a change of this page, whose events the user may not be permitted to receive. */
export function useRefresh(...methods: readonly DescMethodUnary[]): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    await Promise.all(
      methods.map((schema) =>
        queries.invalidateQueries({ queryKey: createConnectQueryKey({ schema, cardinality: undefined }) }),
      ),
    );
  };
}
