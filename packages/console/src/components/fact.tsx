import type { ReactNode } from "react";

export function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactNode {
  return children === undefined || children === null || children === "" ? null : (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
