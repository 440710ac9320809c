export type OptionCheck = {
  readonly allowed: string;
  readonly accepts: (value: unknown) => boolean;
  /** The checks of the value's own properties, if it is an object. */
  readonly properties?: OptionChecks | undefined;
  /** The check of the items, if the value is an array. */
  readonly items?: OptionCheck | undefined;
  readonly isRequired?: true;
};

export type OptionChecks = Readonly<Record<string, OptionCheck>>;

/** A check for each option of a type, so that none can be forgotten. */
export type ChecksOf<Options> = Readonly<Record<keyof Options, OptionCheck>>;

/**
 * Checks an options object: its names, and the types and ranges of its values. An option that is `undefined` is absent.
 * Throws an Error with the option, the allowed values, and a suggestion for a misspelt name. `subject` is the caller's
 * name for the object.
 */
export function checkOptions(options: object, checks: OptionChecks, subject: string = "the options"): void {
  checkIsObject(options, checks, subject);
  checkProperties(options, checks, "");
}

/**
 * Checks that the argument is an object: callers from JavaScript may have forgotten it, or passed the value of an
 * option as such.
 */
export function checkIsObject(options: unknown, checks: OptionChecks, subject: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    const needed = Object.keys(checks).filter((name) => checks[name]?.isRequired === true);
    const allowed = needed.length === 0 ? "an object" : `an object with ${needed.join(", ")}`;
    throw new Error(`${subject} must be ${allowed}, not ${describe(options)}`);
  }
}

/** `prefix` is the path of the object, such as `streams.`. */
function checkProperties(options: object, checks: OptionChecks, prefix: string): void {
  const known = Object.keys(checks).filter((name) => !name.startsWith("$"));
  for (const [name, value] of Object.entries(options)) {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined) {
      const similar = closestName(name, known);
      const advice =
        similar === undefined ? `the options are ${known.join(", ")}` : `did you mean ${prefix}${similar}?`;
      throw new Error(`there is no option ${prefix}${name}; ${advice}`);
    }
    if (value !== undefined) {
      checkValue(`${prefix}${name}`, value, check);
    }
  }
  for (const [name, { isRequired, allowed }] of Object.entries(checks)) {
    if (isRequired === true && (options as Record<string, unknown>)[name] === undefined) {
      throw new Error(`the option ${prefix}${name} is missing: it must be ${allowed}`);
    }
  }
}

function checkValue(name: string, value: unknown, { allowed, accepts, properties, items }: OptionCheck): void {
  if (!accepts(value)) {
    throw new Error(`the option ${name} must be ${allowed}, not ${describe(value)}`);
  }
  if (Array.isArray(value)) {
    if (items !== undefined) {
      value.forEach((item, index) => checkValue(`${name}[${index}]`, item, items));
    }
  } else if (properties !== undefined && typeof value === "object" && value !== null) {
    checkProperties(value, properties, `${name}.`);
  }
}

function describe(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "object":
      return value === null ? "null" : Array.isArray(value) ? `[${value.map(describe).join(", ")}]` : "an object";
    case "function":
      return "a function";
    default:
      return String(value);
  }
}

export const aFunction: OptionCheck = { allowed: "a function", accepts: (value) => typeof value === "function" };

export const aBoolean: OptionCheck = { allowed: "true or false", accepts: (value) => typeof value === "boolean" };

export function aNumber(min: number, max: number): OptionCheck {
  return {
    allowed: `a number from ${min} to ${max}`,
    accepts: (value) => typeof value === "number" && value >= min && value <= max,
  };
}

export function oneOf(...values: readonly string[]): OptionCheck {
  return { allowed: listOf(values), accepts: (value) => values.some((each) => each === value) };
}

/** An array; `allowed` describes an item in the plural. */
export function arrayOf(allowed: string, accepts: (item: unknown) => boolean, items?: OptionCheck): OptionCheck {
  return { allowed: `an array of ${allowed}`, accepts: (value) => Array.isArray(value) && value.every(accepts), items };
}

export function anObject(properties: OptionChecks): OptionCheck {
  return {
    allowed: `an object with ${Object.keys(properties)
      .filter((name) => !name.startsWith("$"))
      .join(", ")}`,
    accepts: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    properties,
  };
}

export function either(one: OptionCheck, other: OptionCheck): OptionCheck {
  return {
    properties: one.properties ?? other.properties,
    allowed: `${one.allowed.replace(" or ", ", ")} or ${other.allowed}`,
    accepts: (value) => one.accepts(value) || other.accepts(value),
  };
}

export function required(check: OptionCheck): OptionCheck {
  return { ...check, isRequired: true };
}

function listOf(values: readonly string[]): string {
  const quoted = values.map((value) => `"${value}"`);
  return quoted.length < 2 ? quoted.join("") : `${quoted.slice(0, -1).join(", ")} or ${quoted.at(-1)}`;
}

/** The known name that is most similar to a misspelt one, or begins with it; undefined if there is none. */
function closestName(name: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((each) => ({ each, edits: editDistance(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, edits }) => edits <= Math.max(1, Math.floor(each.length / 3)))
    .toSorted((one, other) => one.edits - other.edits);
  return best?.each ?? (name.length < 4 ? undefined : known.find((each) => each.startsWith(name)));
}

/** The Levenshtein distance: the number of characters to be inserted, deleted or replaced. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [line, character] of from.split("").entries()) {
    const next = [line + 1];
    for (let at = 0; at < to.length; at++) {
      const replaced = (row[at] ?? 0) + (character === to[at] ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
