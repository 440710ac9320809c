/** A JSON Schema (2020-12), as used in OpenAPI 3.1. */
export type Schema = { [keyword: string]: unknown };

export type ParameterObject = {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly description?: string;
  readonly required?: boolean;
  readonly deprecated?: boolean;
  readonly [keyword: string]: unknown;
};

export type MediaType = { readonly schema?: Schema; readonly [keyword: string]: unknown };

export type Content = Record<string, MediaType>;

export type RequestBodyObject = {
  readonly description?: string;
  readonly required: boolean;
  readonly content: Content;
};

export type ResponseHeader = { readonly description?: string; readonly schema: Schema };

export type Response = {
  readonly description: string;
  readonly headers?: Record<string, ResponseHeader>;
  readonly content?: Content;
};

export type SecurityRequirement = Record<string, readonly string[]>;

export type OperationObject = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary?: string;
  readonly description?: string;
  readonly deprecated?: true;
  readonly parameters?: readonly ParameterObject[];
  readonly requestBody?: RequestBodyObject;
  readonly responses: Record<string, Response>;
  readonly security?: readonly SecurityRequirement[];
};

export type PathItem = Record<string, OperationObject | Record<string, OperationObject>>;

export type Info = {
  readonly title: string;
  readonly version: string;
  readonly summary?: string;
  readonly description?: string;
  readonly [keyword: string]: unknown;
};

export type Server = { readonly url: string; readonly description?: string; readonly [keyword: string]: unknown };

/** An OpenAPI 3.1 document of JSON values, in a deterministic order. */
export type OpenApiDocument = {
  readonly openapi: "3.1.1";
  readonly info: Info;
  readonly servers: readonly Server[];
  readonly tags: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Record<string, PathItem>;
  readonly components: { readonly schemas: Record<string, Schema>; readonly securitySchemes?: Record<string, Schema> };
};
