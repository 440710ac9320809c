import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Cell, Output } from "./output.ts";

/** The largest page that the service sends. */
const maxPageSize = 1000;

type PageRequest = { readonly pageSize: number; readonly pageToken: string };

type List<D extends DescMessage, T> = {
  readonly schema: D;
  readonly limit: number;
  readonly fetchPage: (page: PageRequest) => Promise<MessageShape<D> & { nextPageToken: string }>;
  /** The items of a response, which become those of all pages in the first one. */
  readonly itemsOf: (response: MessageShape<D>) => T[];
  /** What is printed for people if there are none. */
  readonly none: string;
  readonly head: readonly string[];
  readonly toRow: (item: T) => readonly Cell[];
};

/** Prints a list, up to its limit. A note on stderr says that there are more. */
export async function printList<D extends DescMessage, T>(output: Output, list: List<D, T>): Promise<void> {
  const { schema, limit, fetchPage, itemsOf, none, head, toRow } = list;
  const response = await fetchPage({ pageSize: Math.min(maxPageSize, limit), pageToken: "" });
  const items = itemsOf(response);
  let { nextPageToken: pageToken } = response;
  while (pageToken !== "" && items.length < limit) {
    const page = await fetchPage({ pageSize: Math.min(maxPageSize, limit - items.length), pageToken });
    items.push(...itemsOf(page));
    pageToken = page.nextPageToken;
  }
  // A program sees the items, and not how they were fetched.
  response.nextPageToken = "";
  output.message(schema, response, () => (items.length === 0 ? none : output.table(head, items.map(toRow))));
  if (pageToken !== "") {
    process.stderr.write(`flowgate: only the first ${items.length} are shown: use a larger --limit.\n`);
  }
}
