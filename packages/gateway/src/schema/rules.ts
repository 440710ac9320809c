import {
  clone,
  create,
  getOption,
  hasOption,
  type DescEnum,
  type DescEnumValue,
  type DescField,
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
  setExtension,
} from "@bufbuild/protobuf";
import { MethodOptionsSchema } from "@bufbuild/protobuf/wkt";
import { http as httpExtension } from "../../gen/google/api/annotations_pb.ts";
import type { HttpRule } from "../../gen/google/api/http_pb.ts";
import {
  error as errorExtension,
  field as fieldExtension,
  method as methodExtension,
  value as valueExtension,
  EnumValueRuleSchema,
  FieldRuleSchema,
  MethodRuleSchema,
  type EnumValueRule,
  type ErrorRule,
  type FieldRule,
  type MethodRule,
} from "../../gen/flowgate/gateway/v1/annotations_pb.ts";

export function httpRule(method: DescMethod): HttpRule | undefined {
  return hasOption(method, httpExtension) ? getOption(method, httpExtension) : undefined;
}

/** Reads each option once: protobuf-es compiles a message type for each extension that it reads, even where none is set. */
function readOnce<Desc extends object, Rule>(read: (desc: Desc) => Rule): (desc: Desc) => Rule {
  const rules = new WeakMap<Desc, Rule>();
  return (desc) => {
    const known = rules.get(desc);
    if (known !== undefined) {
      return known;
    }
    const rule = read(desc);
    rules.set(desc, rule);
    return rule;
  };
}

const noMethodRule = create(MethodRuleSchema);
/** The rule of a field without one. */
export const noFieldRule: FieldRule = create(FieldRuleSchema);
const noValueRule = create(EnumValueRuleSchema);

/** The (flowgate.gateway.v1.method) option of an RPC; a rule of default values if it has none. */
export const methodRule = readOnce((method: DescMethod): MethodRule =>
  hasOption(method, methodExtension) ? getOption(method, methodExtension) : noMethodRule,
);

/** The body limit for messages without fields: room for fields that a newer client may send. */
const EMPTY_BYTES = 4 * 1024;

/** The maximum size of a request message in bytes: the method's option, and at most `limit`. */
export function maxBodyBytesOf(method: DescMethod, limit: number): number {
  const { maxBodyBytes } = methodRule(method);
  const own = maxBodyBytes === 0 && method.input.fields.length === 0 ? EMPTY_BYTES : maxBodyBytes;
  return own === 0 ? limit : Math.min(own, limit);
}

/** A copy of a method with its (flowgate.gateway.v1.method) option replaced. */
export function withMethodRule<M extends DescMethod>(method: M, rule: MessageInitShape<typeof MethodRuleSchema>): M {
  const { options } = method.proto;
  const changed = options === undefined ? create(MethodOptionsSchema) : clone(MethodOptionsSchema, options);
  setExtension(changed, methodExtension, create(MethodRuleSchema, rule));
  return { ...method, proto: { ...method.proto, options: changed } };
}

/** The (flowgate.gateway.v1.field) option of a field; a rule of default values if it has none. */
export const fieldRule = readOnce((field: DescField): FieldRule =>
  hasOption(field, fieldExtension) ? getOption(field, fieldExtension) : noFieldRule,
);

/** The (flowgate.gateway.v1.error) option of a message; undefined if it has none and so does not define an error body. */
export function errorRule(message: DescMessage): ErrorRule | undefined {
  return hasOption(message, errorExtension) ? getOption(message, errorExtension) : undefined;
}

/** The names of an enum's values in JSON, headers and parameters. */
export type EnumNames = {
  /** True if a value has the `name` option: then only such names are accepted, and numbers are not. */
  readonly strict: boolean;
  readonly numberOf: ReadonlyMap<string, number>;
  /** The same by the names in lower case. */
  readonly numberOfLowerCase: ReadonlyMap<string, number>;
  readonly nameOf: ReadonlyMap<number, string>;
  readonly rules: ReadonlyMap<number, EnumValueRule>;
  /** The value for all other names; they are rejected if it is undefined. */
  readonly unknown?: number;
};

/** The names of an enum's values with the `name` option applied. Cached for each enum. */
export const enumNames = readOnce((desc: DescEnum): EnumNames => compileNames(desc, valueRule));

function valueRule(value: DescEnumValue): EnumValueRule {
  return hasOption(value, valueExtension) ? getOption(value, valueExtension) : noValueRule;
}

/** The names of an enum's values for readers of responses: with and without the `name` option, and numbers. */
export function anyEnumNames(desc: DescEnum): EnumNames {
  const own = enumNames(desc);
  const numberOf = new Map([...protoEnumNames(desc).numberOf, ...own.numberOf]);
  return { ...own, strict: false, numberOf, unknown: desc.values[0]?.number ?? 0 };
}

/** The number of a value by its name, with `ignoreCase` in any case; undefined if no value has the name. */
export function enumNumber(
  { numberOf, numberOfLowerCase }: EnumNames,
  name: string,
  ignoreCase: boolean,
): number | undefined {
  return numberOf.get(name) ?? (ignoreCase ? numberOfLowerCase.get(name.toLowerCase()) : undefined);
}

/** The names of an enum's values in the proto3 JSON mapping. */
export function protoEnumNames(desc: DescEnum): EnumNames {
  return compileNames(desc, () => noValueRule);
}

function compileNames(desc: DescEnum, ruleOf: (value: DescEnumValue) => EnumValueRule): EnumNames {
  const numberOf = new Map<string, number>();
  const nameOf = new Map<number, string>();
  const rules = new Map<number, EnumValueRule>();
  const strict = desc.values.some((value) => ruleOf(value).name !== "");
  for (const value of desc.values) {
    const rule = ruleOf(value);
    rules.set(value.number, rule);
    const name = rule.name === "" ? value.name : rule.name;
    // With allow_alias, the first name is the one to write.
    if (!nameOf.has(value.number)) {
      nameOf.set(value.number, name);
    }
    if (!strict || rule.name !== "") {
      numberOf.set(name, value.number);
    }
  }
  const numberOfLowerCase = new Map(Array.from(numberOf, ([name, number]) => [name.toLowerCase(), number]));
  return { strict, numberOf, numberOfLowerCase, nameOf, rules };
}
