import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, highlightSpecialChars, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import type { CodeLanguage } from "./code-language.ts";
import { cspNonce } from "./csp-nonce.ts";
import "./code-editor.css";

/** The extensions common to all editors. Control and format characters in code are made visible. */
function editorExtensions(language: CodeLanguage, label: string): Extension[] {
  return [
    EditorView.cspNonce.of(cspNonce),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label }),
    lineNumbers(),
    highlightSpecialChars(),
    // The colours are in the style sheet, which follows the colour scheme.
    syntaxHighlighting(classHighlighter),
    ...languages[language],
  ];
}

export function viewerExtensions(language: CodeLanguage, label: string): Extension[] {
  return [
    ...editorExtensions(language, label),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ tabindex: "0" }),
  ];
}

const languages: Readonly<Record<CodeLanguage, readonly Extension[]>> = {
  javascript: [javascript()],
  json: [json()],
  text: [],
};
