/** An enum as it is generated: its numbers by their names, which are in upper case. */
type Enum = Readonly<Record<string, number>>;

type WordOf<Values extends Enum> = Lowercase<keyof Values & string>;

/** The number of an enum by its name in lower case: `enumValue(NodeRole, "tab")` is `NodeRole.TAB`. */
export function enumValue<Values extends Enum, Word extends WordOf<Values>>(
  values: Values,
  word: Word,
): Values[Uppercase<Word> & keyof Values] {
  return values[word.toUpperCase() as Uppercase<Word> & keyof Values];
}

/** The inverse of `enumValue`; undefined for a number without a name, which an open enum can have. */
export function enumWord<Values extends Enum>(values: Values, value: number): WordOf<Values> | undefined {
  const name = Object.keys(values).find((each) => values[each] === value);
  return name?.toLowerCase() as WordOf<Values> | undefined;
}
