import { type ReactNode, useEffect, useRef } from "react";

/** The heading of the current step. It gets the focus, so that screen readers continue from here. */
export function StepHeading({ children }: { readonly children: ReactNode }): ReactNode {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <h2 ref={heading} tabIndex={-1} className="step-heading">
      {children}
    </h2>
  );
}
