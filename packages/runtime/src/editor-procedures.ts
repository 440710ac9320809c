import { type Fields, isFields } from "@flowgate/base/fields";
import type { Procedure } from "./calls.ts";
import { redactJson } from "./redaction.ts";

// What Node-RED's own tools ask for, in the form in which Node-RED answers. Flows can forge each result.

/** Values of flows, as the editor shows them. */
export type EditorContextArgument = {
  readonly scope: "global" | "flow" | "node";
  readonly id?: string | undefined;
  readonly key?: string | undefined;
  readonly store?: string | undefined;
  readonly keysOnly?: boolean | undefined;
};

type Found = { readonly result: Fields } | { readonly missing: true };

/** `missing`: there is no such store. */
export const readEditorContext: Procedure<EditorContextArgument, Found> = {
  name: "editor-context",
  parse(value, redact) {
    if (!isFields(value)) {
      return undefined;
    }
    if (value["missing"] === true) {
      return { missing: true };
    }
    const { result } = value;
    return isFields(result) ? { result: redactJson(result, redact) as Fields } : undefined;
  },
};

/** The settings that nodes export to the editor, and the names of the context stores. */
export const readEditorSettings: Procedure<Record<string, never>, Fields> = {
  name: "editor-settings",
  parse: parseReport,
};

/** The report of Node-RED's diagnostics. */
export const readDiagnostics: Procedure<Record<string, never>, Fields> = { name: "diagnostics", parse: parseReport };

function parseReport(value: unknown, redact: (text: string) => string): Fields | undefined {
  return isFields(value) ? (redactJson(value, redact) as Fields) : undefined;
}

export type NodeCredentialsArgument = { readonly type: string; readonly id: string };

/** The credentials of a node, which are not redacted: texts, and of passwords only whether there is one, as `has_NAME`. */
export const readNodeCredentials: Procedure<NodeCredentialsArgument, Fields> = {
  name: "node-credentials",
  parse: (value) =>
    isFields(value) && Object.values(value).every((each) => typeof each === "string" || typeof each === "boolean")
      ? value
      : undefined,
};
