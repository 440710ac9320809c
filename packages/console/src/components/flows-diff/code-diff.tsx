import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorView } from "@codemirror/view";
import { texts } from "../../texts/flows-diff.ts";
import { viewerExtensions } from "../code-editor.ts";
import type { CodeLanguage } from "../code-language.ts";
import "./code-diff.css";

/** Two versions of code: side by side where there is room, otherwise below each other. One of them can be absent. */
export function CodeDiff({
  path,
  language,
  before,
  after,
}: {
  readonly path: string;
  readonly language: CodeLanguage;
  readonly before: string | undefined;
  readonly after: string | undefined;
}): ReactNode {
  const host = useRef<HTMLDivElement>(null);
  const isWide = useIsWide(host);
  const [isWhole, setWhole] = useState(false);
  const [isCollapsed, setCollapsed] = useState(false);
  useEffect(() => {
    const parent = host.current;
    if (parent === null || isWide === undefined) {
      return undefined;
    }
    const [base, target] = [
      viewerExtensions(language, texts.codeBefore(path)),
      viewerExtensions(language, texts.codeAfter(path)),
    ];
    const options = {
      diffConfig: { scanLimit: 500, timeout: 1_000 },
      ...(!isWhole && { collapseUnchanged: { margin: 3, minSize: 4 } }),
    };
    const view =
      before === undefined || after === undefined
        ? new EditorView({ parent, doc: before ?? after ?? "", extensions: after === undefined ? base : target })
        : isWide
          ? new MergeView({
              parent,
              a: { doc: before, extensions: base },
              b: { doc: after, extensions: target },
              ...options,
            })
          : new EditorView({
              parent,
              doc: after,
              extensions: [target, unifiedMergeView({ original: before, mergeControls: false, ...options })],
            });
    setCollapsed(parent.querySelector(".cm-collapsedLines") !== null);
    return () => view.destroy();
  }, [path, language, before, after, isWide, isWhole]);
  const isChange = before !== undefined && after !== undefined;
  return (
    <div className="code-diff" data-side={isChange ? "both" : before === undefined ? "after" : "before"}>
      <div ref={host} className="code-diff-host" />
      {isWhole || isCollapsed ? (
        <button type="button" className="plain" aria-pressed={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Hide unchanged lines" : "Show unchanged lines"}
        </button>
      ) : null}
    </div>
  );
}

const minWidthOfSides = 760;

function useIsWide(element: RefObject<HTMLElement | null>): boolean | undefined {
  const [isWide, setWide] = useState<boolean>();
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      setWide(entry !== undefined && entry.contentRect.width >= minWidthOfSides);
    });
    if (element.current !== null) {
      observer.observe(element.current);
    }
    return () => observer.disconnect();
  }, [element]);
  return isWide;
}
