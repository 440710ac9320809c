import {
  type CallExpression,
  type Expression,
  type PrivateIdentifier,
  parse,
  type Program,
  type Property,
  type SpreadElement,
  type Statement,
} from "acorn";
import { CliFailure } from "../failure.ts";

/** A value in a settings file: data, or code, which is not run. */
export type Setting = { readonly line: number } & (
  | { readonly kind: "value"; readonly value: string | number | boolean | null }
  | { readonly kind: "list"; readonly items: readonly Setting[] }
  | { readonly kind: "object"; readonly members: ReadonlyMap<string, Setting> }
  | {
      readonly kind: "code";
      readonly reason: string;
      /** The file that it reads, as in `require("fs").readFileSync("key.pem")`. */
      readonly readFile?: string;
      /** The value if the environment variable is not set, as in `process.env.PORT || 1880`. */
      readonly fallback?: Setting;
    }
);

/** Code, which is not run. */
export type Code = Extract<Setting, { kind: "code" }>;

/**
 * Reads the object that a `settings.js` of Node-RED exports, without running the file. Throws a CliFailure if it can't be parsed.
 * If it exports no object literal, the result is code.
 */
export function parseSettings(file: string, text: string): Setting {
  let program: Program;
  try {
    program = parse(text, {
      ecmaVersion: "latest",
      sourceType: "script",
      allowHashBang: true,
      allowReturnOutsideFunction: true,
      locations: true,
    });
  } catch (error) {
    if (error instanceof SyntaxError && "loc" in error) {
      const { line, column } = error.loc as { readonly line: number; readonly column: number };
      throw new CliFailure(
        isModule(text)
          ? `${file}:${line}:${column + 1}: is an ES module, from which Node-RED takes no settings: export them with module.exports = {…}`
          : `${file}:${line}:${column + 1}: is not valid JavaScript: correct it, or import without it`,
      );
    }
    throw error;
  }
  const exported = program.body.map(findExported).findLast((found) => found !== undefined);
  return exported === undefined
    ? { line: 1, kind: "code", reason: "the file has no statement module.exports = {…}" }
    : evaluate(exported);
}

function isModule(text: string): boolean {
  try {
    parse(text, { ecmaVersion: "latest", sourceType: "module", allowHashBang: true });
    return true;
  } catch {
    return false;
  }
}

function findExported(statement: Statement | Program["body"][number]): Expression | undefined {
  if (statement.type !== "ExpressionStatement" || statement.expression.type !== "AssignmentExpression") {
    return undefined;
  }
  const { left, right } = statement.expression;
  const isExports =
    left.type === "MemberExpression" &&
    left.object.type === "Identifier" &&
    left.object.name === "module" &&
    left.property.type === "Identifier" &&
    left.property.name === "exports";
  return isExports ? right : undefined;
}

function evaluate(node: Expression | SpreadElement): Setting {
  const line = node.loc?.start.line ?? 1;
  switch (node.type) {
    case "Literal":
      return isData(node.value)
        ? { line, kind: "value", value: node.value }
        : { line, kind: "code", reason: "it is not JSON" };
    case "TemplateLiteral": {
      const text = node.expressions.length === 0 ? node.quasis[0]?.value.cooked : undefined;
      return typeof text === "string" ? { line, kind: "value", value: text } : { line, kind: "code", reason: computed };
    }
    case "UnaryExpression": {
      const operand = evaluate(node.argument);
      return node.operator === "-" && operand.kind === "value" && typeof operand.value === "number"
        ? { line, kind: "value", value: -operand.value }
        : { line, kind: "code", reason: computed };
    }
    case "ArrayExpression":
      return {
        line,
        kind: "list",
        items: node.elements.map((element) =>
          element === null ? { line, kind: "value", value: null } : evaluate(element),
        ),
      };
    case "ObjectExpression":
      return { line, kind: "object", members: new Map(node.properties.map(readMember)) };
    case "FunctionExpression":
    case "ArrowFunctionExpression":
      return { line, kind: "code", reason: "it is a function" };
    case "LogicalExpression": {
      const reason = node.operator === "&&" ? undefined : environmentVariable(node.left);
      return reason === undefined
        ? { line, kind: "code", reason: computed }
        : { line, kind: "code", reason, fallback: evaluate(node.right) };
    }
    case "CallExpression": {
      const readFile = fileRead(node);
      return { line, kind: "code", reason: computed, ...(readFile !== undefined && { readFile }) };
    }
    default:
      return { line, kind: "code", reason: environmentVariable(node) ?? computed };
  }
}

/** The literal path that a call of `readFileSync` reads. */
function fileRead({ callee, arguments: [argument] }: CallExpression): string | undefined {
  const isRead =
    callee.type === "MemberExpression" &&
    callee.property.type === "Identifier" &&
    callee.property.name === "readFileSync";
  return isRead && argument?.type === "Literal" && typeof argument.value === "string" ? argument.value : undefined;
}

const computed = "it is computed when the file runs";

/** Members whose names are computed, such as those of `...other`, are under the name of the expression. */
function readMember(property: Property | SpreadElement): [name: string, Setting] {
  const line = property.loc?.start.line ?? 1;
  if (property.type === "SpreadElement") {
    return ["...", { line, kind: "code", reason: computed }];
  }
  const { key, value, computed: isComputed, kind } = property;
  const name = key.type === "Identifier" ? key.name : key.type === "Literal" ? String(key.value) : "[…]";
  return isComputed || kind !== "init" ? [name, { line, kind: "code", reason: computed }] : [name, evaluate(value)];
}

function environmentVariable(node: Expression | PrivateIdentifier | SpreadElement): string | undefined {
  if (node.type !== "MemberExpression" || node.object.type !== "MemberExpression") {
    return undefined;
  }
  const { object, property } = node.object;
  const isEnvironment =
    object.type === "Identifier" &&
    object.name === "process" &&
    property.type === "Identifier" &&
    property.name === "env";
  return isEnvironment && node.property.type === "Identifier" && !node.computed
    ? `it is read from the environment variable ${node.property.name}`
    : undefined;
}

function isData(value: unknown): value is string | number | boolean | null {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

export function memberOf(setting: Setting | undefined, name: string): Setting | undefined {
  return setting?.kind === "object" ? setting.members.get(name) : undefined;
}

export function textOf(setting: Setting | undefined): string | undefined {
  return setting?.kind === "value" && typeof setting.value === "string" ? setting.value : undefined;
}

/** Why a setting can't be translated. */
export function reasonOf(setting: Setting | undefined, otherwise = "it is not JSON"): string {
  return setting?.kind === "code" ? setting.reason : otherwise;
}

/** The value of a setting without the members and items that are code, which are `problems`. Undefined: it is code itself. */
export function toJson(setting: Setting | undefined): {
  readonly value: unknown;
  readonly problems: readonly { readonly path: string; readonly setting: Code }[];
} {
  const problems: { path: string; setting: Code }[] = [];
  const visit = (each: Setting, path: string): unknown => {
    switch (each.kind) {
      case "value":
        return each.value;
      case "list":
        return each.items.map((item, at) => visit(item, `${path}[${at}]`)).filter((item) => item !== undefined);
      case "object": {
        const entries = Array.from(each.members, ([name, member]) => [
          name,
          visit(member, path === "" ? name : `${path}.${name}`),
        ]);
        return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
      }
      case "code":
        problems.push({ path, setting: each });
        return undefined;
    }
  };
  const value = setting && visit(setting, "");
  return { value, problems: value === undefined ? [] : problems };
}
