/** The items of a list, and whether there are more than were requested. */
type Listed<T> = { readonly items: readonly T[]; readonly hasMore: boolean };

type Page<T> = { readonly items: readonly T[]; readonly nextPageToken: string };

/** The largest page that the service sends. */
const maxPageSize = 1000;

/** Follows the pages of a list, up to this number of items. */
export async function collectPages<T>(
  limit: number,
  fetchPage: (request: { readonly pageSize: number; readonly pageToken: string }) => Promise<Page<T>>,
): Promise<Listed<T>> {
  const items: T[] = [];
  let pageToken = "";
  do {
    const page = await fetchPage({ pageSize: Math.min(maxPageSize, limit - items.length), pageToken });
    items.push(...page.items);
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && items.length < limit);
  return { items, hasMore: pageToken !== "" };
}

/** Notes on stderr that a list is not complete. */
export function noteMore({ items, hasMore }: Listed<unknown>): void {
  if (hasMore) {
    process.stderr.write(`flowgate: only the first ${items.length} are shown: use a larger --limit.\n`);
  }
}
