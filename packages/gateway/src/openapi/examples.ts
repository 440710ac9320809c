/** An Example Object of OpenAPI. */
export type Example = {
  readonly summary?: string;
  readonly description?: string;
  readonly value: unknown;
};

/** By media type, then by name. */
type ContentExamples = Readonly<Record<string, Readonly<Record<string, Example>>>>;

/** The examples of an operation. */
export type OperationExamples = {
  readonly request?: ContentExamples;
  /** By status. */
  readonly responses?: Readonly<Record<string, ContentExamples>>;
  /** By the parameter's name. */
  readonly parameters?: Readonly<Record<string, unknown>>;
};

/** Examples by operationId. */
export type Examples = Readonly<Record<string, OperationExamples>>;
