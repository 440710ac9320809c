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
  MethodRuleSchema,
  type EnumValueRule,
  type ErrorRule,
  type FieldRule,
  type MethodRule,
} from "../../gen/transcoding/v1/annotations_pb.ts";

/** The google.api.http rule of an RPC, or undefined: it is not served over HTTP then. */
export function httpRule(method: DescMethod): HttpRule | undefined {
  return hasOption(method, httpExtension) ? getOption(method, httpExtension) : undefined;
}

/** The transcoding.v1 options; all at their defaults where there are none. */
export function methodRule(method: DescMethod): MethodRule {
  return getOption(method, methodExtension);
}

/** Room for what a later version of a message that has no fields yet may hold. */
const EMPTY_BYTES = 4 * 1024;

/** The longest request message, where a server takes `most`. */
export function maxBodyBytesOf(method: DescMethod, most: number): number {
  const { maxBodyBytes } = methodRule(method);
  const own = maxBodyBytes === 0 && method.input.fields.length === 0 ? EMPTY_BYTES : maxBodyBytes;
  return own === 0 ? most : Math.min(own, most);
}

/** The method as if its .proto had this for its (transcoding.v1.method) option; all else is the same. */
export function withMethodRule<M extends DescMethod>(method: M, rule: MessageInitShape<typeof MethodRuleSchema>): M {
  const { options } = method.proto;
  const changed = options === undefined ? create(MethodOptionsSchema) : clone(MethodOptionsSchema, options);
  setExtension(changed, methodExtension, create(MethodRuleSchema, rule));
  return { ...method, proto: { ...method.proto, options: changed } };
}

export function fieldRule(field: DescField): FieldRule {
  return getOption(field, fieldExtension);
}

/** undefined: the message, as a detail of an error, is not the HTTP answer. */
export function errorRule(message: DescMessage): ErrorRule | undefined {
  return hasOption(message, errorExtension) ? getOption(message, errorExtension) : undefined;
}

/** How HTTP spells the values of an enum, both ways. Built once an enum. */
export type EnumNames = {
  /** Some value has a spelling of its own: then only such spellings are understood, and numbers are not. */
  readonly strict: boolean;
  readonly numberOf: ReadonlyMap<string, number>;
  readonly nameOf: ReadonlyMap<number, string>;
  readonly rules: ReadonlyMap<number, EnumValueRule>;
};

const spellings = new WeakMap<DescEnum, EnumNames>();

export function enumNames(desc: DescEnum): EnumNames {
  let spelling = spellings.get(desc);
  if (spelling === undefined) {
    spelling = compileNames(desc, (value) => getOption(value, valueExtension));
    spellings.set(desc, spelling);
  }
  return spelling;
}

/** As the proto3 JSON mapping spells it. */
export function protoEnumNames(desc: DescEnum): EnumNames {
  const rule = create(EnumValueRuleSchema);
  return compileNames(desc, () => rule);
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
    // Under allow_alias the first name is the one that is written.
    if (!nameOf.has(value.number)) {
      nameOf.set(value.number, name);
    }
    if (!strict || rule.name !== "") {
      numberOf.set(name, value.number);
    }
  }
  return { strict, numberOf, nameOf, rules };
}
