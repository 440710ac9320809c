import type { ReactNode } from "react";

/** A fact, in a list with the class `facts`. Not shown without a value. */
export function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactNode {
  return children === undefined || children === null || children === "" ? null : (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
