import { create, type DescField, type DescMethod, type MessageInitShape } from "@bufbuild/protobuf";
import { HttpRuleSchema, type HttpRule } from "../../gen/google/api/http_pb.ts";
import type { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { variantsOf, type Route, type Variant } from "./route.ts";
import { isTextField, resolveFieldPath, type FieldPath } from "../schema/field-path.ts";
import { fieldRule, httpRule, withMethodRule } from "../schema/rules.ts";
import { parseTemplate, type Template } from "./template.ts";

/** A google.api.HttpRule that is not in the .proto, for the methods that its `selector` matches. */
export type Rule = MessageInitShape<typeof HttpRuleSchema> & {
  /** Replaces the methods' (flowgate.gateway.v1.method) option. A rule without a pattern then leaves their google.api.http rule in place. */
  readonly options?: MessageInitShape<typeof MethodRuleSchema>;
};

export type RoutesOptions = {
  readonly rules: readonly Rule[];
  /** Accepts only the template grammar of http.proto, without this package's extensions. */
  readonly strictTemplates: boolean;
  /** Accepts "*" after "**". */
  readonly googleTemplates: boolean;
};

/**
 * Compiles and validates the google.api.http rules of methods: a route for each rule and each of its additional
 * bindings. Throws an Error that names the RPC whose rule is invalid.
 */
export function compileRoutes(methods: readonly DescMethod[], options: RoutesOptions): Route[] {
  const { rules, optionsOf } = selectRules(methods, options.rules);
  return methods.flatMap((method) => {
    const rule = rules.get(method);
    const methodOptions = optionsOf.get(method);
    const effective = methodOptions === undefined ? method : withMethodRule(method, methodOptions);
    try {
      return rule === undefined
        ? []
        : [rule, ...additionalBindings(rule)].map((each) => compileRoute(effective, each, options));
    } catch (cause) {
      throw methodError(method, cause);
    }
  });
}

/** An error that names the RPC whose options are invalid. */
export function methodError(method: DescMethod, cause: unknown): Error {
  return new Error(
    `can't serve ${method.toString()} over HTTP: ${cause instanceof Error ? cause.message : String(cause)}`,
    { cause },
  );
}

/**
 * The rule of each method: the last external rule that selects it, else the rule in its .proto. An external rule
 * without a pattern removes the method's rule.
 */
function selectRules(
  methods: readonly DescMethod[],
  externalRules: RoutesOptions["rules"],
): { rules: Map<DescMethod, HttpRule>; optionsOf: Map<DescMethod, NonNullable<Rule["options"]>> } {
  const rules = new Map<DescMethod, HttpRule>();
  const optionsOf = new Map<DescMethod, NonNullable<Rule["options"]>>();
  for (const method of methods) {
    const own = httpRule(method);
    if (own !== undefined) {
      rules.set(method, own);
    }
  }
  for (const { options, ...init } of externalRules) {
    const rule = create(HttpRuleSchema, init as MessageInitShape<typeof HttpRuleSchema>);
    const matches = compileSelector(rule.selector);
    const selected = methods.filter((method) => matches(`${method.parent.typeName}.${method.name}`));
    if (selected.length === 0) {
      throw new Error(`the selector "${rule.selector}" matches no registered RPC`);
    }
    for (const method of selected) {
      if (options !== undefined) {
        optionsOf.set(method, options);
      }
      if (rule.pattern.case !== undefined) {
        rules.set(method, rule);
      } else if (options === undefined) {
        rules.delete(method);
      }
    }
  }
  return { rules, optionsOf };
}

/** The rules that select a method. */
export function rulesOf(method: DescMethod, rules: readonly Rule[]): Rule[] {
  const name = `${method.parent.typeName}.${method.name}`;
  return rules.filter(({ selector = "" }) => compileSelector(selector)(name));
}

/** Compiles a selector (google.api.http): the full name of a method, or a prefix such as "*", "acme.v1.*", "acme.v1.Things.*". */
function compileSelector(selector: string): (fullName: string) => boolean {
  const [, prefix, name] = /^(?:((?:\w+\.)*)\*|(\w+(?:\.\w+)*))$/.exec(selector) ?? [];
  if (name !== undefined) {
    return (fullName) => fullName === name;
  }
  if (prefix !== undefined) {
    return (fullName) => fullName.startsWith(prefix);
  }
  throw new Error(`the selector "${selector}" is neither the name of an RPC nor a prefix that ends with ".*"`);
}

function additionalBindings(rule: HttpRule): HttpRule[] {
  if (rule.additionalBindings.some((each) => each.additionalBindings.length > 0)) {
    throw new Error("additional_bindings can't have additional_bindings of their own");
  }
  return rule.additionalBindings;
}

function compileRoute(method: DescMethod, rule: HttpRule, { strictTemplates, googleTemplates }: RoutesOptions): Route {
  const { httpMethod, path } = patternOf(rule);
  const template = parseTemplate(path, { strict: strictTemplates, google: googleTemplates });
  const pathFields = resolvePathFields(method, template);
  const variants = variantsOf(method, rule);
  for (const variant of variants) {
    checkBodies(method, variant, pathFields);
    checkStreams(method, variant);
  }
  return { method, httpMethod, template, pathFields, variants };
}

function patternOf({ pattern }: HttpRule): { httpMethod: string; path: string } {
  switch (pattern.case) {
    case undefined:
      throw new Error("its google.api.http rule has no pattern");
    case "custom": {
      const { kind, path } = pattern.value;
      // A token of RFC 9110, section 5.6.2; "*" is one too.
      if (!/^[\w!#$%&'*+.^`|~-]+$/.test(kind)) {
        throw new Error(`"${kind}" is not a valid HTTP method`);
      }
      return { httpMethod: kind, path };
    }
    default:
      return { httpMethod: pattern.case.toUpperCase(), path: pattern.value };
  }
}

function resolvePathFields(method: DescMethod, template: Template): FieldPath[] {
  const oneofs = new Map<string, string>();
  return template.variables.map(({ fieldPath }) => {
    const fields = resolveFieldPath(method.input, fieldPath);
    const [top, leaf] = [fields[0], fields.at(-1)];
    if (top === undefined || leaf === undefined || !isTextField(leaf)) {
      throw new Error(
        `${String(leaf)} can't be bound from a path: it must be a singular scalar, an enum, or a well-known type that is a string, number or boolean in JSON`,
      );
    }
    const { header } = fieldRule(top);
    if (header !== "") {
      throw new Error(`${top.toString()} is bound from the header ${header}, and can't be from the path too`);
    }
    for (const [depth, { oneof }] of fields.entries()) {
      if (oneof !== undefined) {
        // Several variables may bind fields of the same member.
        const place = [...fields.slice(0, depth).map(({ name }) => name), oneof.name].join(".");
        const member = fields[depth]?.name ?? "";
        if ((oneofs.get(place) ?? member) !== member) {
          throw new Error(`the path binds two members of ${oneof.toString()}: ${oneofs.get(place)} and ${member}`);
        }
        oneofs.set(place, member);
      }
    }
    return fields;
  });
}

function checkBodies(method: DescMethod, { body, responseBody }: Variant, pathFields: readonly FieldPath[]): void {
  const { input, output } = method;
  if (body !== "" && body !== "*") {
    const field = findField(input.fields, body);
    if (field === undefined) {
      throw new Error(`${input.typeName} has no field "${body}", which the rule names as the body`);
    }
    const { header } = fieldRule(field);
    if (header !== "") {
      throw new Error(`${field.toString()} is bound from the header ${header}, and can't be the body too`);
    }
    if (pathFields.some((fields) => fields.length === 1 && fields[0] === field)) {
      throw new Error(`${field.toString()} is bound from the path, and can't be the body too`);
    }
    const conflicting = pathFields.find(([top]) => field.oneof !== undefined && top?.oneof === field.oneof)?.[0];
    if (conflicting !== undefined) {
      throw new Error(
        `${field.toString()} can't be the body: the path binds ${conflicting.name}, a member of the same oneof`,
      );
    }
  }
  if (responseBody !== "" && findField(output.fields, responseBody) === undefined) {
    throw new Error(`${output.typeName} has no field "${responseBody}" that can be the response_body`);
  }
}

function findField(fields: readonly DescField[], name: string): DescField | undefined {
  return fields.find((field) => field.name === name);
}

/** Checks that a client stream has a request body, and a server stream a response body. */
function checkStreams({ methodKind }: DescMethod, { body, hasBody }: Variant): void {
  if ((methodKind === "client_streaming" || methodKind === "bidi_streaming") && body === "") {
    throw new Error("a client stream must have a body");
  }
  if ((methodKind === "server_streaming" || methodKind === "bidi_streaming") && !hasBody) {
    throw new Error("a server stream must have a response body");
  }
}
