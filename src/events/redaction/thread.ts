// The thread that compiles many values of credentials, and redacts long texts.
import { serveThread } from "@flowgate/base/thread";
import type { Automaton } from "./automaton.ts";
import { Redactor, compileValues } from "./redactor.ts";

export type RedactionCall =
  | { readonly kind: "compile"; readonly values: ReadonlySet<string> }
  | {
      readonly kind: "redact";
      readonly automata: readonly Automaton[];
      readonly texts: ReadonlySet<string>;
      readonly isCut: boolean;
    };

export type RedactionReply =
  | { readonly kind: "compiled"; readonly automaton: Automaton }
  | { readonly kind: "redacted"; readonly texts: ReadonlyMap<string, string> };

serveThread<RedactionCall, RedactionReply>((call) => {
  switch (call.kind) {
    case "compile":
      return { reply: { kind: "compiled", automaton: compileValues(call.values) } };
    case "redact":
      return { reply: { kind: "redacted", texts: new Redactor(call.automata).redactAll(call.texts, call.isCut) } };
  }
});
