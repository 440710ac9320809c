import type { DescMethod } from "@bufbuild/protobuf";
import { RequestError } from "../http/request-error.ts";
import type { RequestHeaders } from "../http/request.ts";
import type { FieldPath } from "../schema/field-path.ts";
import { createBoundFields, type BindingSource, type BoundFields } from "../schema/bound-fields.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { formatTemplate, type Template } from "./template.ts";

/** One HTTP method and path template of an RPC: a route for its rule, and one for each of the additional bindings. */
export type Route = {
  readonly method: DescMethod;
  /** An HTTP method, or "*" for all of them. */
  readonly httpMethod: string;
  readonly template: Template;
  /** The fields that the template's variables bind, in the order of the variables. */
  readonly pathFields: readonly FieldPath[];
  /** In the order of declaration; a single one without a value if the method has no variants. */
  readonly variants: readonly [Variant, ...Variant[]];
};

/** An identifier of the route that is unique among the routes of its method, and the same in every process. */
export function routeName({ httpMethod, template }: Route): string {
  return `${httpMethod} ${formatTemplate(template)}`;
}

/** The fields that are bound to the path, a header or the body, and so can't be parameters. */
export function boundFieldsOf({ method, pathFields }: Pick<Route, "method" | "pathFields">, body: string): BoundFields {
  if (body === "*") {
    return "body";
  }
  const sources: [FieldPath, BindingSource][] = pathFields.map((path) => [path, "path"]);
  for (const field of method.input.fields) {
    if (fieldRule(field).header !== "") {
      sources.push([[field], "header"]);
    } else if (field.name === body) {
      sources.push([[field], "body"]);
    }
  }
  return createBoundFields(sources);
}

/** The mapping of body and response for one value of the header that selects the variant. */
export type Variant = {
  /** The value of the header; undefined if the method has no variants. */
  readonly value: string | undefined;
  /** As in google.api.http: "*", the name of a field, or empty for no body. */
  readonly body: string;
  /** As `response_body` of google.api.http: the name of a field, or empty for the whole message. */
  readonly responseBody: string;
  readonly status: number;
  /** True if a successful response has a body. */
  readonly hasBody: boolean;
};

export function isSuccess(status: number): boolean {
  return Number.isInteger(status) && status >= 200 && status <= 399;
}

/** True if successful responses of this status can have a body (RFC 9110, section 15). */
export function hasContent(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}

/** The variants of a method; if it has none, a single one with the rule's body and response_body. */
export function variantsOf(
  method: DescMethod,
  rule: { readonly body: string; readonly responseBody: string },
): readonly [Variant, ...Variant[]] {
  const { variants, status, noContent, otherStatuses } = methodRule(method);
  for (const other of otherStatuses) {
    if (!isSuccess(other.status)) {
      throw new Error(
        `other_statuses can't have ${other.status}: the implementation can choose a status from 200 to 399`,
      );
    }
  }
  const createVariant = (value: string | undefined, mapping: typeof rule & { readonly status: number }): Variant => {
    const success = mapping.status || status || 200;
    return {
      value,
      body: mapping.body,
      responseBody: mapping.responseBody,
      status: success,
      hasBody: !noContent && hasContent(success),
    };
  };
  const [first, ...others] = variants?.variants ?? [];
  if (variants === undefined || first === undefined) {
    return [createVariant(undefined, { ...rule, status: 0 })];
  }
  if (![first, ...others].some(({ value }) => value === variants.default)) {
    throw new Error(`no variant has the default value "${variants.default}"`);
  }
  return [createVariant(first.value, first), ...others.map((variant) => createVariant(variant.value, variant))];
}

/** Compiles the selection of a variant by the request's header; the selector throws a RequestError for an unknown value. */
export function createVariantSelector<T>(
  method: DescMethod,
  entries: readonly (readonly [value: string | undefined, entry: T])[],
): (headers: RequestHeaders) => T {
  const { variants } = methodRule(method);
  const [only] = entries;
  if (variants === undefined && only !== undefined) {
    return () => only[1];
  }
  const byValue = new Map(entries);
  const name = variants?.header ?? "";
  const header = name.toLowerCase();
  const expected = [...byValue.keys()].join(", ");
  return (headers) => {
    const value = headers[header] ?? variants?.default;
    const entry = typeof value === "string" ? byValue.get(value) : undefined;
    if (entry === undefined) {
      const reason = variants === undefined || variants.invalid === "" ? undefined : variants.invalid;
      throw new RequestError(400, reason, `${name}: must be one of ${expected}`);
    }
    return entry;
  };
}
