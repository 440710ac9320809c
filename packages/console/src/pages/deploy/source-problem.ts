/** Where something is wrong in a text, and what. */
export type SourceProblem = {
  readonly line: number;
  readonly column: number;
  /** Of the value in the JSON; empty if it is the whole, or not known. */
  readonly path: string;
  readonly message: string;
};

export class SourceError extends Error {
  readonly problems: readonly SourceProblem[];

  constructor(problems: readonly SourceProblem[]) {
    super(problems[0]?.message);
    this.name = "SourceError";
    this.problems = problems;
  }
}
