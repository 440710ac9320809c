import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { OpenApiDocument } from "../src/index.ts";

/** What is wrong with a document, by the OpenAPI Initiative's own schema of 3.1; undefined: nothing. */
export async function problemOf(document: object): Promise<string | undefined> {
  const { valid, errors } = await new Validator().validate(structuredClone(document) as Record<string, unknown>);
  return valid ? undefined : JSON.stringify(errors, null, 2);
}

/** Checks values against the schemas of a document; each is named by the keys on the way to it. */
export type SchemaCheck = (path: readonly string[], value: unknown) => string | undefined;

export function createSchemaCheck(document: OpenApiDocument): SchemaCheck {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  formats.default(ajv);
  // Ranges are told by other keywords; these say how wide a number is.
  for (const name of ["uint32", "uint64"]) {
    ajv.addFormat(name, true);
  }
  ajv.addSchema({ ...document, $id: "https://test.invalid/openapi.json" });
  const compiled = new Map<string, ValidateFunction>();
  return (path, value) => {
    const pointer = path
      .map((key) => key.replaceAll("~", "~0").replaceAll("/", "~1"))
      .map(encodeURIComponent)
      .join("/");
    const validate = compiled.get(pointer) ?? ajv.compile({ $ref: `https://test.invalid/openapi.json#/${pointer}` });
    compiled.set(pointer, validate);
    return validate(value) ? undefined : ajv.errorsText(validate.errors);
  };
}

/** Every schema that a document has, by the keys on the way to it. */
export function schemaPaths(document: OpenApiDocument): string[][] {
  const paths: string[][] = [];
  const visit = (value: unknown, path: string[]): void => {
    if (typeof value !== "object" || value === null) {
      return;
    }
    for (const [key, each] of Object.entries(value)) {
      const isSchema = key === "schema" || key === "x-itemSchema" || (path.length === 2 && path[1] === "schemas");
      if (isSchema) {
        paths.push([...path, key]);
      } else if (key !== "examples" && key !== "example") {
        visit(each, [...path, key]);
      }
    }
  };
  visit(document, []);
  return paths;
}
