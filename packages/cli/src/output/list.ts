import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { CliFailure } from "../failure.ts";
import type { Cell, Output } from "./output.ts";

/** The largest page that the service sends. */
const maxPageSize = 1000;

export type PageRequest = { readonly pageSize: number; readonly pageToken: string };

type List<D extends DescMessage, T> = {
  readonly schema: D;
  readonly limit: number;
  readonly fetchPage: (page: PageRequest) => Promise<MessageShape<D> & { nextPageToken: string }>;
  /** The items of a response, which become those of all pages in the first one. */
  readonly itemsOf: (response: MessageShape<D>) => T[];
  /** The text for people if there are none. */
  readonly none: string;
  readonly head: readonly string[];
  /** The titles of columns that are shortened if the table is too wide. */
  readonly shortened?: readonly string[];
  readonly toRow: (item: T) => readonly Cell[];
};

/** Prints a list, up to its limit. A note on stderr says that there are more. */
export async function printList<D extends DescMessage, T>(output: Output, list: List<D, T>): Promise<void> {
  const { schema, limit, fetchPage, itemsOf, none, head, shortened, toRow } = list;
  const response = await fetchList(limit, fetchPage, itemsOf);
  const items = itemsOf(response);
  const hasMore = response.nextPageToken !== "";
  // A program sees the items, and not how they were fetched.
  response.nextPageToken = "";
  output.message(schema, response, () => (items.length === 0 ? none : output.table(head, items.map(toRow), shortened)));
  if (hasMore) {
    process.stderr.write(`flowgate: only the first ${items.length} are shown: use a larger --limit.\n`);
  }
}

/** The pages of a list up to its limit, as one response. It has the token of the next page if there are more. */
export async function fetchList<Response extends { nextPageToken: string }>(
  limit: number,
  fetchPage: (page: PageRequest) => Promise<Response>,
  itemsOf: (response: Response) => unknown[],
): Promise<Response> {
  const list = await fetchPage({ pageSize: Math.min(maxPageSize, limit), pageToken: "" });
  const items = itemsOf(list);
  while (list.nextPageToken !== "" && items.length < limit) {
    const pageSize = Math.min(maxPageSize, limit - items.length);
    const page = await fetchPage({ pageSize, pageToken: list.nextPageToken });
    items.push(...itemsOf(page));
    list.nextPageToken = page.nextPageToken;
  }
  return list;
}

/** The only item whose id begins with a text. Throws a CliFailure if there is none, or are several. `list` is the command that lists them. */
export function findByBeginning<T>(
  items: readonly T[],
  beginning: string,
  idOf: (item: T) => string,
  kind: string,
  list: string,
): T {
  const found = items.filter((item) => idOf(item).startsWith(beginning));
  const [first, second] = found;
  if (first === undefined) {
    throw new CliFailure(`${beginning}: there is no such ${kind}. List them with ${list}.`);
  }
  if (second !== undefined) {
    throw new CliFailure(
      `${beginning}: ${found.length} ${kind}s begin with it, such as ${idOf(first)} and ${idOf(second)}. Specify more characters.`,
    );
  }
  return first;
}
