import type { OpenApiDocument, OperationObject, Response, Schema } from "../packages/gateway/src/openapi/document.ts";
import { endpoints, endpointsTag } from "./openapi-endpoints.ts";

/** The required parameters by path. The .proto does not require them, so that the implementation can return errors of RFC 6749. */
const requiredParameters = { "/auth/token": ["grant_type", "username", "password"], "/auth/revoke": ["token"] };

/** Adds to the document what the .proto files can't express. */
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
      post: {
        ...operation,
        requestBody: { ...requestBody, required: true, content: Object.fromEntries(content) },
        responses: { ...operation.responses, default: withExclusiveErrors(operation.responses["default"]) },
      },
    };
  }
  // Revocation has two errors only: 401 of the gate, without a body, and invalid_request.
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

/** Each of the errors has a required property that the others lack. ogen has no code for `anyOf`. */
function withExclusiveErrors(response: Response | undefined): Response {
  const { schema = {} } = response?.content?.["application/json"] ?? {};
  const { anyOf: oneOf } = schema;
  if (response === undefined || oneOf === undefined) {
    throw new Error("the errors have no alternatives");
  }
  return {
    ...response,
    content: { "application/json": { ...response.content?.["application/json"], schema: { oneOf } } },
  };
}

/** Requires the parameters, and makes all properties strings that must not be empty. */
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
