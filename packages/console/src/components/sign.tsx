import type { ReactNode } from "react";

export type Tone = "good" | "bad" | "warn" | "info" | "neutral";

/** A short word in colour, such as an outcome. The word says it too, for those who do not see the colour. */
export function Sign({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }): ReactNode {
  return (
    <span className="sign" data-tone={tone}>
      {children}
    </span>
  );
}
