import { type ReactNode, useEffect } from "react";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ConnectError } from "@connectrpc/connect";
import { texts } from "../texts/app.ts";
import { Loading, Problem } from "./notice.tsx";

/** The heading of a page with its controls, and the page's content. Sets the title of the window. */
export function Page({
  title,
  actions,
  children,
}: {
  readonly title: string;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}): ReactNode {
  useEffect(() => {
    document.title = `${title} · ${texts.product}`;
  }, [title]);
  return (
    <div className="page">
      <div className="page-heading">
        <h1>{title}</h1>
        {actions === undefined ? null : <div className="actions">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

export function Result<Data>({
  of: { data, error, refetch },
  children,
}: {
  readonly of: UseQueryResult<Data, ConnectError>;
  readonly children: (data: Data) => ReactNode;
}): ReactNode {
  if (data !== undefined) {
    return children(data);
  }
  return error === null ? <Loading /> : <Problem error={error} onRetry={() => void refetch()} />;
}
