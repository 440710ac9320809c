import { beforeAll, describe, expect, test } from "vitest";
import type { DescService } from "@bufbuild/protobuf";
import type { FileDescriptorSet } from "@bufbuild/protobuf/wkt";
import { openapi, type GatewayOptions, type OpenApiDocument, type OpenApiOptions } from "../../src/index.ts";
import type { OperationObject } from "../../src/openapi/document.ts";
import { createSchemaCheck, problemOf } from "../openapi-check.ts";
import { compileProto, serviceOf } from "./compile-proto.ts";

const source = `
syntax = "proto3";
package library.v1;
import "google/api/annotations.proto";
import "google/api/field_behavior.proto";
import "google/api/visibility.proto";
import "google/protobuf/field_mask.proto";

service LibraryService {
  rpc GetBook(GetBookRequest) returns (Book) {
    option (google.api.http) = {get: "/v1/{name=books/*}"};
  }
  rpc ListBooks(ListBooksRequest) returns (ListBooksResponse) {
    option (google.api.http) = {get: "/v1/books"};
  }
  rpc CreateBook(CreateBookRequest) returns (Book) {
    option (google.api.http) = {post: "/v1/books" body: "*"};
  }
  rpc UpdateBook(UpdateBookRequest) returns (Book) {
    option (google.api.http) = {patch: "/v1/{book.name=books/*}" body: "book"};
  }
  rpc CountBooks(ListBooksRequest) returns (ListBooksResponse) {
    option (google.api.http) = {get: "/v1/books:count"};
    option (google.api.method_visibility).restriction = "INTERNAL, PREVIEW";
  }
}

service OldService {
  option deprecated = true;
  rpc Find(GetBookRequest) returns (Book);
}

service AuditService {
  option (google.api.api_visibility).restriction = "INTERNAL";
  rpc Audit(GetBookRequest) returns (Book);
}

message Book {
  string name = 1 [(google.api.field_behavior) = IDENTIFIER];
  string title = 2 [(google.api.field_behavior) = REQUIRED];
  string etag = 3 [(google.api.field_behavior) = OUTPUT_ONLY];
  string upload_token = 4 [(google.api.field_behavior) = INPUT_ONLY];
  string isbn = 5 [
    (google.api.field_behavior) = REQUIRED,
    (google.api.field_behavior) = IMMUTABLE
  ];
  Kind kind = 6;
  string shelf_code = 7 [(google.api.field_visibility).restriction = "INTERNAL"];
  Secret secret = 8;
  repeated string tags = 9 [(google.api.field_behavior) = UNORDERED_LIST];
}
message Secret {
  option (google.api.message_visibility).restriction = "INTERNAL";
  string text = 1;
}
enum Kind {
  KIND_UNSPECIFIED = 0;
  KIND_PAPER = 1;
  KIND_TAPE = 2 [deprecated = true];
  KIND_DRAFT = 3 [(google.api.value_visibility).restriction = "INTERNAL"];
}
message GetBookRequest {
  string name = 1 [(google.api.field_behavior) = REQUIRED];
}
message ListBooksRequest {
  string shelf = 1 [(google.api.field_behavior) = REQUIRED];
  string cursor = 2 [(google.api.field_behavior) = OUTPUT_ONLY];
  string debug = 3 [(google.api.field_visibility).restriction = "INTERNAL"];
}
message ListBooksResponse {
  repeated Book books = 1;
}
message CreateBookRequest {
  Book book = 1 [(google.api.field_behavior) = REQUIRED];
  string book_id = 2;
}
message UpdateBookRequest {
  Book book = 1 [(google.api.field_behavior) = REQUIRED];
  google.protobuf.FieldMask update_mask = 2;
}`;

const names = ["LibraryService", "OldService", "AuditService"];
let set: FileDescriptorSet;
let services: DescService[];
beforeAll(async () => {
  set = await compileProto(source);
  services = names.map((name) => serviceOf(set, `library.v1.${name}`));
});

function describeLibrary(
  options: Partial<OpenApiOptions> = {},
  handler: Partial<GatewayOptions> = {},
): OpenApiDocument {
  const routes: GatewayOptions["routes"] = (router) => services.forEach((service) => router.service(service, {}));
  return openapi({ routes, ...handler }, { info: { title: "Library", version: "1" }, ...options });
}

const placesOf = (document: OpenApiDocument): string[] =>
  Object.entries(document.paths).flatMap(([path, item]) => Object.keys(item).map((method) => `${method} ${path}`));

const operationAt = (document: OpenApiDocument, path: string, method: string): OperationObject =>
  document.paths[path]?.[method] as OperationObject;

type ObjectSchema = { required?: string[]; properties: Record<string, { description?: string }> };
const schemaOf = (document: OpenApiDocument, name: string) => document.components.schemas[name] as ObjectSchema;

test.each(["simple", "exact"] as const)("the document with %s schemas is valid", async (schemas) => {
  expect(await problemOf(describeLibrary({ schemas, connect: "all", visibility: ["INTERNAL"] }))).toBeUndefined();
});

describe("google.api.field_behavior", () => {
  test("becomes keywords and sentences", () => {
    expect(schemaOf(describeLibrary(), "Book").properties).toMatchObject({
      name: { description: "Identifies the resource." },
      etag: { readOnly: true },
      uploadToken: { writeOnly: true },
      isbn: { description: expect.stringContaining("Can't be changed once it is set.") },
      tags: { description: "The order of the items has no meaning." },
    });
  });

  test("REQUIRED is required of a message that only requests have, not of one that responses and changes have too", () => {
    const document = describeLibrary();
    expect(schemaOf(document, "CreateBookRequest").required).toEqual(["book"]);
    const book = schemaOf(document, "Book");
    expect(book.required).toBeUndefined();
    expect(book.properties["title"]?.description).toBe("Required in requests, except for a change of some fields.");
    const check = createSchemaCheck(document);
    // As it is written if the title is empty: proto3 JSON omits the zero value.
    expect(check(["components", "schemas", "Book"], { name: "books/1" })).toBeUndefined();
    expect(check(["components", "schemas", "CreateBookRequest"], {})).toContain("required property 'book'");
  });

  test("REQUIRED of exact schemas depends on the use", () => {
    const document = describeLibrary({ schemas: "exact" });
    const { schemas } = document.components;
    expect(schemas["BookInput"]?.["required"]).toEqual(["title", "isbn"]);
    expect(schemas["BookPatch"]?.["required"]).toBeUndefined();
    expect(schemas["Book"]?.["required"]).toBeUndefined();
    const body = ["requestBody", "content", "application/json", "schema"];
    const check = createSchemaCheck(document);
    const create = ["paths", "/v1/books", "post", ...body];
    expect(check(create, { book: { title: "Dune", isbn: "1" } })).toBeUndefined();
    expect(check(create, { book: { title: "Dune" } })).toContain("required property 'isbn'");
    expect(check(["paths", "/v1/books/{book_id}", "patch", ...body], { title: "Dune" })).toBeUndefined();
  });

  test("is that of parameters", () => {
    expect(operationAt(describeLibrary(), "/v1/books", "get").parameters).toEqual([
      { name: "shelf", in: "query", required: true, schema: { type: "string" } },
    ]);
  });
});

describe("google.api.visibility", () => {
  test("leaves out what is restricted to other labels", () => {
    const document = describeLibrary();
    expect(placesOf(document)).not.toContain("get /v1/books:count");
    expect(document.tags.map(({ name }) => name)).toEqual(["LibraryService", "OldService"]);
    expect(Object.keys(schemaOf(document, "Book").properties)).not.toEqual(
      expect.arrayContaining(["shelfCode", "secret"]),
    );
    expect(Object.keys(document.components.schemas)).not.toContain("Secret");
    expect(document.components.schemas["Kind"]?.["enum"]).toEqual(["KIND_UNSPECIFIED", "KIND_PAPER", "KIND_TAPE"]);
  });

  test("includes what has one of the labels", () => {
    expect(placesOf(describeLibrary({ visibility: ["PREVIEW"] }))).toContain("get /v1/books:count");
    const document = describeLibrary({ visibility: ["INTERNAL"] });
    expect(document.tags.map(({ name }) => name)).toEqual(names);
    expect(schemaOf(document, "Book").properties).toHaveProperty("shelfCode");
    expect(document.components.schemas).toHaveProperty("Secret");
    expect(document.components.schemas["Kind"]?.["enum"]).toContain("KIND_DRAFT");
    expect(operationAt(document, "/v1/books", "get").parameters?.map(({ name }) => name)).toEqual(["shelf", "debug"]);
  });
});

describe("a selection", () => {
  const list = "get /v1/books";
  const find = "post /library.v1.OldService/Find";

  test.each<[options: Partial<OpenApiOptions>, places: string[]]>([
    [{ include: ["library.v1.OldService"] }, [find]],
    [{ include: ["library.v1.OldService", "library.v1.LibraryService.ListBooks"] }, [list, find]],
    [{ include: ["library.v1"], exclude: ["library.v1.LibraryService.*"] }, [find]],
    [{ include: ["tag:OldService"] }, [find]],
    [
      {
        tags: [
          { selector: "*", tags: ["A"] },
          { selector: "library.v1.OldService", tags: ["B", "C"] },
        ],
        exclude: ["tag:A"],
      },
      [find],
    ],
  ])("of %j", (options, places) => {
    expect(placesOf(describeLibrary(options))).toEqual(places);
  });

  test("has the tags of the option, with the comment of a service of this name only", () => {
    const tags = [{ selector: "library.v1.LibraryService", tags: ["Books", "LibraryService"] }];
    const comments: OpenApiOptions["comments"] = (desc) => (desc.kind === "service" ? desc.name : undefined);
    const document = describeLibrary({ tags, comments, exclude: ["library.v1.OldService"] });
    expect(document.tags).toEqual([{ name: "Books" }, { name: "LibraryService", description: "LibraryService" }]);
    expect(operationAt(document, "/v1/books", "get").tags).toEqual(["Books", "LibraryService"]);
  });

  test.each<[options: Partial<OpenApiOptions>, message: string]>([
    [
      { include: ["library.v2"] },
      'the option include selects no RPC by "library.v2"; the services are library.v1.LibraryService, library.v1.OldService, library.v1.AuditService',
    ],
    [
      { exclude: ["tag:Internal"] },
      'the option exclude selects no RPC by "tag:Internal"; the tags are LibraryService, OldService, AuditService',
    ],
  ])("of nothing is an error: %j", (options, message) => {
    expect(() => describeLibrary(options)).toThrow(new Error(message));
  });

  test("leaves out the rules of other RPCs, but not those of none", () => {
    const rule = { selector: "library.v1.LibraryService.*" };
    expect(placesOf(describeLibrary({ include: ["library.v1.OldService"] }, { rules: [rule] }))).toEqual([find]);
    const wrong = { selector: "library.v2.*" };
    expect(() => describeLibrary({ include: ["library.v1.OldService"] }, { rules: [wrong] })).toThrow(
      'the selector "library.v2.*" matches no registered RPC',
    );
  });
});

test("deprecated services and enum values are marked", () => {
  const document = describeLibrary();
  expect(operationAt(document, "/library.v1.OldService/Find", "post").deprecated).toBe(true);
  expect(operationAt(document, "/v1/books", "get").deprecated).toBeUndefined();
  expect(document.components.schemas["Kind"]?.["description"]).toBe("- `KIND_TAPE`: Deprecated.");
});

test("security is given for selectors, of which the last one applies", () => {
  const document = describeLibrary({
    securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    security: [
      { selector: "library.v1", requirements: [{ bearer: [] }] },
      { selector: "library.v1.OldService", requirements: [] },
    ],
  });
  expect(operationAt(document, "/v1/books", "get").security).toEqual([{ bearer: [] }]);
  expect(operationAt(document, "/library.v1.OldService/Find", "post").security).toEqual([]);
  expect(document.components.securitySchemes).toEqual({ bearer: { type: "http", scheme: "bearer" } });
});
