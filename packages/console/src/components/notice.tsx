import type { ReactNode } from "react";
import { messageOf } from "../api/transport.ts";
import { texts } from "../texts/app.ts";

export function Notice({ title, children }: { readonly title: string; readonly children?: ReactNode }): ReactNode {
  return (
    <section className="notice">
      <h1>{title}</h1>
      {children}
    </section>
  );
}

export function Loading(): ReactNode {
  return <output className="loading">{texts.loading}</output>;
}

export function Problem({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }): ReactNode {
  return (
    <div className="problem" role="alert">
      <p>{messageOf(error)}</p>
      {onRetry === undefined ? null : (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
