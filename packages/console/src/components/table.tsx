import type { ReactNode } from "react";
import { texts } from "../texts/app.ts";
import { Problem } from "./notice.tsx";

export type Column<Row> = {
  readonly title: string;
  /** True to hide the title, as for a column of buttons. */
  readonly isUntitled?: boolean;
  readonly cell: (row: Row) => ReactNode;
};

export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  empty,
}: {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  readonly empty: ReactNode;
}): ReactNode {
  if (rows.length === 0) {
    return <p className="muted">{empty}</p>;
  }
  return (
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ title, isUntitled = false }) => (
            <th key={title} scope="col">
              {isUntitled ? <span className="visually-hidden">{title}</span> : title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ title, isUntitled = false, cell }) => (
              <td key={title} data-title={isUntitled ? undefined : title}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export const byPage = {
  pageParamKey: "pageToken",
  getNextPageParam: ({ nextPageToken }: { readonly nextPageToken: string }) => nextPageToken || undefined,
} as const;

export function LoadMore({
  of: { hasNextPage, isFetchingNextPage, isFetchNextPageError, error, fetchNextPage },
}: {
  readonly of: {
    readonly hasNextPage: boolean;
    readonly isFetchingNextPage: boolean;
    readonly isFetchNextPageError: boolean;
    readonly error: unknown;
    readonly fetchNextPage: () => Promise<unknown>;
  };
}): ReactNode {
  if (!hasNextPage) {
    return null;
  }
  const load = (): void => void fetchNextPage();
  return isFetchNextPageError ? (
    <Problem error={error} onRetry={load} />
  ) : (
    <button type="button" className="load-more" aria-disabled={isFetchingNextPage} onClick={load}>
      {isFetchingNextPage ? texts.loading : "Load more"}
    </button>
  );
}
