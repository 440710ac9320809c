import type { ReactNode } from "react";

/** A field with its value, and what it means. */
export function Fact({
  of: { title, meaning },
  children,
}: {
  readonly of: { readonly title: string; readonly meaning: string };
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div className="settings-fact">
      <dt>{title}</dt>
      <dd>
        <div>{children}</div>
        {meaning === "" ? null : <p className="muted">{meaning}</p>}
      </dd>
    </div>
  );
}
