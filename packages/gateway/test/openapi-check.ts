import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { OpenApiDocument } from "../src/index.ts";

/** It compiles the schema once. */
const validator = new Validator();

/** The problems of a document according to the OpenAPI Initiative's schema of 3.1; undefined if it is valid. */
export async function problemOf(document: object): Promise<string | undefined> {
  const { valid, errors } = await validator.validate(structuredClone(document) as Record<string, unknown>);
  return valid ? undefined : JSON.stringify(errors, null, 2);
}

/** Checks a value against a schema of a document; `path` has the keys that lead to the schema. */
export type SchemaCheck = (path: readonly string[], value: unknown) => string | undefined;

export function createSchemaCheck(document: OpenApiDocument): SchemaCheck {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  formats.default(ajv);
  // These formats are annotations; the ranges are given by other keywords.
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

/** The paths of all schemas in a document. */
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
