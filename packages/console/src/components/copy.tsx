import { type ReactNode, useState } from "react";
import { texts } from "../texts/app.ts";

export function CopyButton({
  text,
  label = "Copy",
}: {
  readonly text: string | (() => string);
  readonly label?: string;
}): ReactNode {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  const copy = async (): Promise<void> => {
    try {
      // Absent where the page is loaded without TLS from another machine.
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setState("copied");
    } catch {
      setState("failed");
    }
  };
  return (
    <>
      <button type="button" onClick={() => void copy()}>
        {state === "copied" ? texts.copied : label}
      </button>
      <output className="visually-hidden">{state === "copied" ? texts.copied : ""}</output>
      {state === "failed" ? (
        <span role="alert">The browser does not permit it: select the text, and copy it.</span>
      ) : null}
    </>
  );
}
