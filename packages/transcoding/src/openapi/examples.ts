/** A value that is shown, and checked against its schema. */
export type Example = {
  readonly summary?: string;
  readonly description?: string;
  readonly value: unknown;
};

/** By media type, then by name. */
type ContentExamples = Readonly<Record<string, Readonly<Record<string, Example>>>>;

/** Of one operation. */
export type OperationExamples = {
  readonly request?: ContentExamples;
  /** By status. */
  readonly responses?: Readonly<Record<string, ContentExamples>>;
  /** By the parameter's name. */
  readonly parameters?: Readonly<Record<string, unknown>>;
};

/** By operationId. */
export type Examples = Readonly<Record<string, OperationExamples>>;
