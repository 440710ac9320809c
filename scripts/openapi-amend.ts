import type { OpenApiDocument, OperationObject, Schema } from "../packages/transcoding/src/openapi/document.ts";
import { endpoints, endpointsTag } from "./openapi-endpoints.ts";

/** By path, the parameters that the implementation requires: the .proto does not, so that it can answer as RFC 6749 says. */
const requiredParameters = {
  "/auth/token": ["grant_type", "username", "password"],
  "/auth/revoke": ["token"],
};

/** Adds what the .proto does not say. */
export function amend(document: OpenApiDocument): OpenApiDocument {
  const { paths, components } = document;
  const amended = { ...paths, ...endpoints };
  const schemas = { ...components.schemas };
  for (const [path, required] of Object.entries(requiredParameters)) {
    const operation = operationAt(document, path, "post");
    const { requestBody } = operation;
    const content = Object.entries(requestBody?.content ?? {}).map(([type, { schema = {}, ...media }]) => {
      const name = (schema["$ref"] as string | undefined)?.replace("#/components/schemas/", "");
      if (name === undefined) {
        return [type, { ...media, schema: withRequired(schema, required) }] as const;
      }
      schemas[name] = withRequired(schemas[name] ?? {}, required);
      return [type, { ...media, schema }] as const;
    });
    amended[path] = {
      post: { ...operation, requestBody: { ...requestBody, required: true, content: Object.fromEntries(content) } },
    };
  }
  // The gate alone answers 401, without a body; of the other errors of tokens, revocation has invalid_request only.
  const revoke = amended["/auth/revoke"]?.["post"] as OperationObject;
  const { 401: unauthorized } = operationAt(document, "/settings", "get").responses;
  const { 429: _tooMany, ...responses } = revoke.responses;
  amended["/auth/revoke"] = {
    post: { ...revoke, responses: { ...responses, ...(unauthorized && { 401: unauthorized }) } },
  };
  return {
    ...document,
    tags: [...document.tags, endpointsTag],
    paths: amended,
    components: { ...components, schemas },
  };
}

function operationAt({ paths }: OpenApiDocument, path: string, method: string): OperationObject {
  const operation = paths[path]?.[method];
  if (operation === undefined) {
    throw new Error(`the document has no ${method} ${path}`);
  }
  return operation as OperationObject;
}

/** Each parameter is text that must not be empty. */
function withRequired(schema: Schema, required: readonly string[]): Schema {
  const properties = Object.entries(schema["properties"] as Record<string, Schema>);
  return {
    ...schema,
    properties: Object.fromEntries(
      properties.map(([name, property]) => [name, { ...property, type: "string", minLength: 1 }]),
    ),
    required,
  };
}
