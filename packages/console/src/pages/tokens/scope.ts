export type ScopeChoice = {
  /** True for all permissions of its user; the selection then has no effect. */
  readonly isEverything: boolean;
  readonly selected: ReadonlySet<string>;
  /** Others, as they were typed. */
  readonly others: string;
};

export const noScope: ScopeChoice = { isEverything: false, selected: new Set(), others: "" };

function chosenNames({ selected, others }: ScopeChoice): readonly string[] {
  return [...new Set([...selected, ...others.split(/[\s,]+/)])].filter((name) => name !== "");
}

/** The scope of the request: undefined requests all permissions of the caller. */
export function requestedScope(choice: ScopeChoice): string | undefined {
  return choice.isEverything ? undefined : chosenNames(choice).join(" ");
}

export function withName(choice: ScopeChoice, name: string, isSelected: boolean): ScopeChoice {
  const selected = new Set(choice.selected);
  if (isSelected) {
    selected.add(name);
  } else {
    selected.delete(name);
  }
  return { ...choice, selected };
}
