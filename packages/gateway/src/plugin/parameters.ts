import type { SchemaForm } from "../openapi/scalar-schema.ts";
import type { ErrorFormatName } from "../openapi/error-schemas.ts";
import type { OpenApiOptions } from "../openapi/options.ts";
import type { ValidationForm } from "../openapi/validation.ts";
import type { GatewayOptions } from "../options/options.ts";
import type { presets } from "../options/presets.ts";

/** The parameter of the plugin: what `opt` of buf and `--flowgate-openapi_opt` of protoc set. */
export type Parameters = {
  readonly output?: string;
  readonly title?: string;
  readonly version?: string;
  readonly description?: string;
  /** URLs; can be repeated. */
  readonly servers?: readonly string[];
  readonly connect?: NonNullable<OpenApiOptions["connect"]>;
  /** Can be repeated, like the next two. */
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  readonly visibility?: readonly string[];
  readonly preset?: keyof typeof presets;
  readonly errors?: ErrorFormatName;
  readonly streams?: NonNullable<NonNullable<GatewayOptions["streams"]>["json"]>;
  readonly schemas?: SchemaForm;
  readonly validation?: ValidationForm;
  /** A JSON file with further options. */
  readonly config?: string;
};

const lists = new Set(["servers", "include", "exclude", "visibility"]);

/**
 * Parses `name=value,…`. protoc and buf join parameters with commas and don't escape commas in values, so a part that
 * begins with a blank or has no `=` continues the previous value. The caller must check the result.
 */
export function parseParameter(text: string): Parameters {
  const parts: string[] = [];
  for (const part of text === "" ? [] : text.split(",")) {
    const last = parts.pop();
    if (last !== undefined && (/^\s/.test(part) || !part.includes("="))) {
      parts.push(`${last},${part}`);
    } else {
      parts.push(...(last === undefined ? [] : [last]), part);
    }
  }
  const values = new Map<string, string[]>();
  for (const part of parts) {
    const [name = "", ...rest] = part.split("=");
    if (rest.length === 0) {
      throw new Error(`the option ${name} has no value: options are name=value`);
    }
    const before = values.get(name) ?? [];
    if (before.length > 0 && !lists.has(name)) {
      throw new Error(`the option ${name} is set more than once`);
    }
    values.set(name, [...before, rest.join("=")]);
  }
  return Object.fromEntries([...values].map(([name, each]) => [name, lists.has(name) ? each : each[0]]));
}
