import type { Content, OperationObject } from "./document.ts";

export type Example = { readonly summary?: string; readonly description?: string; readonly value: unknown };

/** By media type, then by name. */
type ContentExamples = Readonly<Record<string, Readonly<Record<string, Example>>>>;

export type OperationExamples = {
  readonly request?: ContentExamples;
  /** By status. */
  readonly responses?: Readonly<Record<string, ContentExamples>>;
  /** By the parameter's name. */
  readonly parameters?: Readonly<Record<string, unknown>>;
};

export type Examples = Readonly<Record<string, OperationExamples>>;

/** Adds its examples to an operation. Throws an Error for one that the operation has no place for. */
export function addExamples(operation: OperationObject, examples: OperationExamples | undefined): OperationObject {
  if (examples === undefined) {
    return operation;
  }
  const { operationId } = operation;
  const addToContent = (content: Content | undefined, own: OperationExamples["request"], where: string): void => {
    for (const [mediaType, byName] of Object.entries(own ?? {})) {
      const target = content?.[mediaType];
      if (content === undefined || target === undefined) {
        throw new Error(`there are examples for ${operationId}, ${where}, ${mediaType}, but it has no such content`);
      }
      content[mediaType] = { ...target, examples: byName };
    }
  };
  addToContent(operation.requestBody?.content, examples.request, "request");
  for (const [status, own] of Object.entries(examples.responses ?? {})) {
    addToContent(operation.responses[status]?.content, own, `response ${status}`);
  }
  const values = new Map(Object.entries(examples.parameters ?? {}));
  const parameters = operation.parameters?.map((parameter) => {
    const example = values.get(parameter.name);
    values.delete(parameter.name);
    return example === undefined ? parameter : { ...parameter, example };
  });
  const [unknown] = values.keys();
  if (unknown !== undefined) {
    throw new Error(`there is an example for the parameter ${unknown} of ${operationId}, but it has no such parameter`);
  }
  return parameters === undefined ? operation : { ...operation, parameters };
}
