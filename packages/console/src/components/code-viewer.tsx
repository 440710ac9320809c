import { type ReactNode, useEffect, useRef } from "react";
import { EditorView } from "@codemirror/view";
import { viewerExtensions } from "./code-editor.ts";
import type { CodeLanguage } from "./code-language.ts";

export function CodeViewer({
  text,
  language,
  label,
}: {
  readonly text: string;
  readonly language: CodeLanguage;
  readonly label: string;
}): ReactNode {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (host.current === null) {
      return undefined;
    }
    const view = new EditorView({ parent: host.current, doc: text, extensions: viewerExtensions(language, label) });
    return () => view.destroy();
  }, [text, language, label]);
  return <div ref={host} className="code-view" />;
}
