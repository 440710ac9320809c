import type { DescMethod } from "@bufbuild/protobuf";
import { RequestError } from "../http/request-error.ts";
import type { FieldPath } from "../schema/field-path.ts";
import { methodRule } from "../schema/rules.ts";
import { formatTemplate, type Template } from "./template.ts";

/** One pattern of one RPC: its rule has one, and one more for each additional binding. */
export type Route = {
  readonly method: DescMethod;
  /** "GET", or any other; "*" for all. */
  readonly httpMethod: string;
  /** The path template; formatTemplate writes it out. */
  readonly template: Template;
  /** What the template's variables fill, in their order: the fields from the request message down to each. */
  readonly pathFields: readonly FieldPath[];
  /** In the order that selection prefers; one without a value where the method has no variants. */
  readonly variants: readonly [Variant, ...Variant[]];
};

/** Unique among the bindings of a method, and the same in every process. */
export function routeName({ httpMethod, template }: Route): string {
  return `${httpMethod} ${formatTemplate(template)}`;
}

/** One shape of a binding. */
export type Variant = {
  /** Of the header that selects; undefined where the method has no variants. */
  readonly value: string | undefined;
  /** As in google.api.http: "*", the name of a field, or empty for no body. */
  readonly body: string;
  /** The name of a field, or empty for the whole message. */
  readonly responseBody: string;
  /** Of a success. */
  readonly status: number;
  /** A success has a body. */
  readonly hasBody: boolean;
};

/** The variants of a method; a binding's own body and response_body where it has none. */
export function variantsOf(
  method: DescMethod,
  rule: { readonly body: string; readonly responseBody: string },
): readonly [Variant, ...Variant[]] {
  const { variants, status, noContent } = methodRule(method);
  const complete = (value: string | undefined, shape: typeof rule & { readonly status: number }): Variant => {
    const success = shape.status || status || 200;
    return {
      value,
      body: shape.body,
      responseBody: shape.responseBody,
      status: success,
      hasBody: !noContent && success !== 204 && success !== 205,
    };
  };
  const [first, ...others] = variants?.variants ?? [];
  if (variants === undefined || first === undefined) {
    return [complete(undefined, { ...rule, status: 0 })];
  }
  if (![first, ...others].some(({ value }) => value === variants.default)) {
    throw new Error(`its variants have none for the default "${variants.default}"`);
  }
  return [complete(first.value, first), ...others.map((variant) => complete(variant.value, variant))];
}

/** Compiles the selection of what belongs to a variant by the request's header; it throws a RequestError where none does. */
export function createSelector<T>(
  method: DescMethod,
  shapes: readonly (readonly [value: string | undefined, shape: T])[],
): (headers: NodeJS.Dict<string | string[]>) => T {
  const { variants } = methodRule(method);
  const [only] = shapes;
  if (variants === undefined && only !== undefined) {
    return () => only[1];
  }
  const byValue = new Map(shapes);
  const name = variants?.header ?? "";
  const header = name.toLowerCase();
  const expected = [...byValue.keys()].join(", ");
  return (headers) => {
    const value = headers[header] ?? variants?.default;
    const shape = typeof value === "string" ? byValue.get(value) : undefined;
    if (shape === undefined) {
      const reason = variants === undefined || variants.invalid === "" ? undefined : variants.invalid;
      throw new RequestError(400, reason, `${name}: must be one of ${expected}`);
    }
    return shape;
  };
}
