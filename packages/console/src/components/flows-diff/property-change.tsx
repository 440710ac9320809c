import { type ComponentProps, lazy, type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import { texts } from "../../texts/flows-diff.ts";
import { visibleText } from "../visible-text.ts";
import { type PropertyView, splitChange } from "./properties.ts";

export type NameOf = (id: string) => string;

export function PropertyChangeView({
  view,
  nameOf,
}: {
  readonly view: PropertyView;
  readonly nameOf: NameOf;
}): ReactNode {
  const path = view.kind === "references" && view.output !== undefined ? texts.output(view.output) : view.path;
  return (
    <div className="property-change" data-kind={view.kind}>
      <code className="property-path">{visibleText(path)}</code>
      {view.kind === "code" ? (
        <VisibleCodeDiff {...view} />
      ) : view.kind === "value" ? (
        <ValueChange {...view} />
      ) : (
        <ReferenceChange {...view} nameOf={nameOf} />
      )}
    </div>
  );
}

function ValueChange({ before, after }: { readonly before: string | undefined; readonly after: string | undefined }) {
  const parts = before === undefined || after === undefined ? undefined : splitChange(before, after);
  const side = (whole: string | undefined, middle: string | undefined): ReactNode => {
    if (whole === undefined) {
      return <span className="muted">none</span>;
    }
    // What is the same makes the rest easier to see, unless that is all.
    return parts === undefined || middle === undefined || parts.start.length + parts.end.length < 4 ? (
      visibleText(whole)
    ) : (
      <>
        {visibleText(parts.start)}
        {middle === "" ? null : <mark>{visibleText(middle)}</mark>}
        {visibleText(parts.end)}
      </>
    );
  };
  return (
    <span className="value-change">
      <del>
        <span className="visually-hidden">{"Before"}: </span>
        {side(before, parts?.before)}
      </del>
      <span aria-hidden="true"> → </span>
      <ins>
        <span className="visually-hidden">{"After"}: </span>
        {side(after, parts?.after)}
      </ins>
    </span>
  );
}

function ReferenceChange({
  added,
  removed,
  nameOf,
}: Pick<Extract<PropertyView, { kind: "references" }>, "added" | "removed"> & { readonly nameOf: NameOf }): ReactNode {
  if (added.length === 0 && removed.length === 0) {
    return <span className="muted">the same nodes, in another order</span>;
  }
  return (
    <ul className="references">
      {added.map((id) => (
        <li key={`+${id}`}>
          <ins>
            <span aria-hidden="true">+ </span>
            <span className="visually-hidden">{texts.changes.added}: </span>
            {nameOf(id)}
          </ins>
        </li>
      ))}
      {removed.map((id) => (
        <li key={`-${id}`}>
          <del>
            <span aria-hidden="true">− </span>
            <span className="visually-hidden">{texts.changes.removed}: </span>
            {nameOf(id)}
          </del>
        </li>
      ))}
    </ul>
  );
}

const CodeDiff = lazy(async () => ({ default: (await import("./code-diff.tsx")).CodeDiff }));

/** Loads the editor when the code comes near the visible area: a difference can have any number of editors. */
function VisibleCodeDiff(props: ComponentProps<typeof CodeDiff>): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting === true) {
          setNear(true);
          observer.disconnect();
        }
      },
      { rootMargin: "400px" },
    );
    if (place.current !== null) {
      observer.observe(place.current);
    }
    return () => observer.disconnect();
  }, []);
  const waiting = <pre className="code-waiting">{props.after ?? props.before}</pre>;
  return (
    <div ref={place} className="code-change">
      {isNear ? (
        <Suspense fallback={waiting}>
          <CodeDiff {...props} />
        </Suspense>
      ) : (
        waiting
      )}
    </div>
  );
}
