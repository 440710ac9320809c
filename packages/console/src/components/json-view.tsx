import "./json-view.css";
import { type ReactNode, useState } from "react";
import type { JsonValue } from "@bufbuild/protobuf";
import { texts } from "../texts/json-view.ts";
import { visibleText } from "./visible-text.ts";

const shownMembers = 100;
const shownChars = 1_000;

export function JsonView({
  value,
  isOpen = true,
}: {
  readonly value: JsonValue;
  readonly isOpen?: boolean;
}): ReactNode {
  if (typeof value === "string") {
    return <Text text={JSON.stringify(value)} />;
  }
  if (typeof value !== "object" || value === null) {
    return <code>{String(value)}</code>;
  }
  const isArray = Array.isArray(value);
  const members = Object.entries(value);
  if (members.length === 0) {
    return <code>{isArray ? "[]" : "{}"}</code>;
  }
  return <Members members={members} isArray={isArray} isOpen={isOpen} />;
}

function Members({
  members,
  isArray,
  isOpen: isOpenAtFirst,
}: {
  readonly members: readonly (readonly [key: string, value: JsonValue])[];
  readonly isArray: boolean;
  readonly isOpen: boolean;
}): ReactNode {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const [shown, setShown] = useState(shownMembers);
  const more = members.length - shown;
  return (
    <details className="json" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{isArray ? texts.elements(members.length) : texts.members(members.length)}</summary>
      {isOpen ? (
        <ul>
          {members.slice(0, shown).map(([key, value]) => (
            <li key={key}>
              <span className="json-key">{visibleText(key)}:</span> <JsonView value={value} isOpen={false} />
            </li>
          ))}
          {more > 0 ? (
            <li>
              <button type="button" onClick={() => setShown(shown + shownMembers)}>
                {texts.more(Math.min(more, shownMembers))}
              </button>
            </li>
          ) : null}
        </ul>
      ) : null}
    </details>
  );
}

function Text({ text }: { readonly text: string }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const rest = text.length - shownChars;
  return rest <= 0 || isWhole ? (
    <code className="json-text">{visibleText(text)}</code>
  ) : (
    <>
      <code className="json-text">{visibleText(text.slice(0, shownChars))}…</code>{" "}
      <button type="button" onClick={() => setWhole(true)}>
        {texts.rest(rest)}
      </button>
    </>
  );
}
