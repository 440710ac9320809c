import { type ReactNode, useEffect, useId, useState } from "react";
import { useSearchParams } from "wouter";
import { visibleText } from "./visible-text.ts";

/** The filters of a page by their names; empty: not set. They are parameters of its address, so that it can be shared. */
export type Filters<Name extends string> = Readonly<Record<Name, string>>;

export function useFilters<Name extends string>(
  names: readonly Name[],
): readonly [Filters<Name>, (changes: Partial<Filters<Name>>) => void] {
  const [parameters, setParameters] = useSearchParams();
  const filters = Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""])) as Filters<Name>;
  const change = (changes: Partial<Filters<Name>>): void =>
    setParameters(
      (previous) => {
        const next = new URLSearchParams(previous);
        for (const [name, value] of Object.entries<string>(changes as Filters<Name>)) {
          if (value === "") {
            next.delete(name);
          } else {
            next.set(name, value);
          }
        }
        return next;
      },
      { replace: true },
    );
  return [filters, change];
}

const pauseMs = 300;

/** Takes effect when there is a pause in the typing. */
export function TextFilter({
  label,
  value,
  suggestions = [],
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly suggestions?: readonly string[];
  readonly onChange: (value: string) => void;
}): ReactNode {
  const [typed, setTyped] = useState<string>();
  const id = useId();
  useEffect(() => {
    if (typed === undefined) {
      return undefined;
    }
    const timer = setTimeout(() => {
      onChange(typed.trim());
      setTyped(undefined);
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [typed, onChange]);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="search"
        autoComplete="off"
        spellCheck={false}
        value={typed ?? value}
        list={suggestions.length === 0 ? undefined : `${id}-suggestions`}
        onChange={(event) => setTyped(event.target.value)}
      />
      {suggestions.length === 0 ? null : (
        <datalist id={`${id}-suggestions`}>
          {suggestions.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </datalist>
      )}
    </div>
  );
}

export function SelectFilter({
  label,
  value,
  all,
  options,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly all: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
  readonly onChange: (value: string) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{all}</option>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {visibleText(option.label)}
          </option>
        ))}
      </select>
    </div>
  );
}

/** A time of the viewer's time zone; the filter has it in UTC, as in RFC 3339. */
export function TimeFilter({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="datetime-local"
        value={toLocal(value)}
        onChange={({ target }) => onChange(target.value === "" ? "" : new Date(target.value).toISOString())}
      />
    </div>
  );
}

/** Formats a time such as `2026-11-26T23:50`; empty if it is not a valid time. */
function toLocal(time: string): string {
  const ms = Date.parse(time);
  if (Number.isNaN(ms)) {
    return "";
  }
  const offsetMs = new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(ms - offsetMs).toISOString().slice(0, 16);
}
