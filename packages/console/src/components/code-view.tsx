import { lazy, type ReactNode, Suspense } from "react";
import type { CodeLanguage } from "./code-language.ts";

const Viewer = lazy(async () => ({ default: (await import("./code-viewer.tsx")).CodeViewer }));

/** Highlighted code that is shown only. The highlighter is loaded when code is shown first; until then it is plain text. */
export function CodeView(props: {
  readonly text: string;
  readonly language: CodeLanguage;
  readonly label: string;
}): ReactNode {
  return (
    <Suspense fallback={<pre className="code-waiting">{props.text}</pre>}>
      <Viewer {...props} />
    </Suspense>
  );
}
