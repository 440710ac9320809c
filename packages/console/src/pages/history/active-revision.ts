import { useQuery } from "@connectrpc/connect-query";
import { type Revision, RevisionsService } from "@flowgate/client";

/** The newest ones, from which one can be chosen. */
const maxRecent = 100;

export function useRecentRevisions(): { readonly revisions: readonly Revision[]; readonly active?: Revision } {
  const { data } = useQuery(RevisionsService.method.listRevisions, { pageSize: maxRecent });
  const revisions = data?.revisions ?? [];
  const active = revisions.find((each) => each.active);
  return { revisions, ...(active !== undefined && { active }) };
}
