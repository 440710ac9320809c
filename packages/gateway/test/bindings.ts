import { getOption, hasOption, type DescField, type DescMessage, type DescMethod } from "@bufbuild/protobuf";
import { http } from "../gen/google/api/annotations_pb.ts";
import type { HttpRule } from "../gen/google/api/http_pb.ts";

/** A rule or one of its additional bindings. */
export type Binding = { readonly httpMethod: string; readonly template: string; readonly body: string };

/** The bindings of a method, read from its annotation. */
export function bindingsOf(method: DescMethod): Binding[] {
  if (!hasOption(method, http)) {
    return [];
  }
  const rule = getOption(method, http);
  return [rule, ...rule.additionalBindings].map(bindingOf);
}

function bindingOf({ pattern, body }: HttpRule): Binding {
  switch (pattern.case) {
    case undefined:
      throw new Error("a rule without a pattern");
    case "custom":
      return { httpMethod: pattern.value.kind, template: pattern.value.path, body };
    default:
      return { httpMethod: pattern.case.toUpperCase(), template: pattern.value, body };
  }
}

/** The fields that a path such as `a.b` names. */
export function fieldsAt(desc: DescMessage, path: string): [DescField, ...DescField[]] {
  const [name, ...rest] = path.split(".");
  const field = desc.fields.find((each) => each.name === name);
  if (field === undefined || (rest.length > 0 && field.message === undefined)) {
    throw new Error(`${desc.typeName} has no field ${path}`);
  }
  return [field, ...(field.message === undefined || rest.length === 0 ? [] : fieldsAt(field.message, rest.join(".")))];
}
