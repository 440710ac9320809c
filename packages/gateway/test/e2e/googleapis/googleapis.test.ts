import type { DescMethod, DescMethodUnary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { openapi, type GatewayOptions, type Rule } from "../../../src/index.ts";
import { problemOf } from "../../openapi-check.ts";
import { compilePackages, listPackages, missingProtoFiles } from "./compile-protos.ts";
import { sweep } from "./sweep.ts";

/** RPCs or services with the same HTTP methods and paths as others of their package, which is an error at start-up. */
const duplicates: readonly (readonly [name: string, rpcs: string, others: string])[] = [
  ["google.cloud.bigquery.storage.v1", "BigQueryRead.SplitReadStream", "BigQueryRead.ReadRows"],
  ["google.cloud.bigquery.storage.v1", "BigQueryWrite.CreateWriteStream", "BigQueryRead.CreateReadSession"],
  ["google.cloud.bigquery.storage.v1", "BigQueryWrite.GetWriteStream", "BigQueryWrite.AppendRows"],
  ["google.cloud.bigquery.storage.v1", "BigQueryWrite.FinalizeWriteStream", "BigQueryWrite.AppendRows"],
  ["google.cloud.bigquery.storage.v1", "BigQueryWrite.FlushRows", "BigQueryWrite.AppendRows"],
  ["google.cloud.bigquery.storage.v1beta1", "BigQueryStorage.SplitReadStream", "BigQueryStorage.ReadRows"],
  ["google.cloud.bigquery.storage.v1beta2", "BigQueryRead.SplitReadStream", "BigQueryRead.ReadRows"],
  ["google.cloud.bigquery.storage.v1beta2", "BigQueryWrite.CreateWriteStream", "BigQueryRead.CreateReadSession"],
  ["google.cloud.bigquery.storage.v1beta2", "BigQueryWrite.GetWriteStream", "BigQueryWrite.AppendRows"],
  ["google.cloud.bigquery.storage.v1beta2", "BigQueryWrite.FinalizeWriteStream", "BigQueryWrite.AppendRows"],
  ["google.cloud.bigquery.storage.v1beta2", "BigQueryWrite.FlushRows", "BigQueryWrite.AppendRows"],
  ["google.cloud.discoveryengine.v1", "SessionService", "ConversationalSearchService"],
  ["google.cloud.discoveryengine.v1alpha", "SessionService", "ConversationalSearchService"],
  ["google.cloud.discoveryengine.v1beta", "SessionService", "ConversationalSearchService"],
];

/** Firestore distinguishes a document from a collection by the number of segments. Here it is a request of ListDocuments. */
const ambiguous: Readonly<Record<string, string>> = {
  "google.firestore.v1":
    "google.firestore.v1.Firestore.GetDocument: GET /v1/{name=projects/*/databases/*/documents/*/**}",
  "google.firestore.v1beta1":
    "google.firestore.v1beta1.Firestore.GetDocument: GET /v1beta1/{name=projects/*/databases/*/documents/*/**}",
};

const isExceptional = ({ name }: { name: string }): boolean =>
  name in ambiguous || duplicates.some(([each]) => each === name);

/** A sample by default, because all packages take a minute of CPU: `npm run test:googleapis`. */
const compiled =
  missingProtoFiles === undefined
    ? compilePackages(
        listPackages().filter(
          (each, index) => process.env["GOOGLEAPIS"] === "all" || index % 5 === 0 || isExceptional(each),
        ),
      )
    : [];
const methodsOf = (name: string): DescMethod[] => compiled.find(([each]) => each === name)?.[1] ?? [];
/** Whether a method is the RPC, or one of the service, with this name in its package. */
const isOf = ({ name, parent }: DescMethod, rpcs: string): boolean =>
  `${parent.name}.${name}` === rpcs || parent.name === rpcs;

describe.skipIf(missingProtoFiles !== undefined)("the APIs of Google", () => {
  test.each(compiled)("all bindings of %s receive their requests and are described", async (name, methods) => {
    const own = duplicates.filter(([each]) => each === name);
    const served = methods.filter((method) => !own.some(([, rpcs]) => isOf(method, rpcs)));
    const { bindings, wrong } = await sweep(served);
    expect(wrong).toEqual(name in ambiguous ? [ambiguous[name]] : []);
    const routes: GatewayOptions["routes"] = (router) =>
      served.forEach((method) => router.rpc(method as DescMethodUnary, () => ({})));
    const document = openapi(
      { routes, googleTemplates: true },
      { info: { title: name, version: "1" }, connect: "none" },
    );
    expect(await problemOf(document)).toBeUndefined();
    expect(Object.values(document.paths).flatMap((item) => Object.keys(item))).toHaveLength(bindings);
  });

  test.each(duplicates)("%s can't have both %s and %s", async (name, rpcs, others) => {
    const methods = methodsOf(name).filter((method) => isOf(method, rpcs) || isOf(method, others));
    await expect(sweep(methods)).rejects.toThrow(
      new RegExp(`of rpc ${name}.${rpcs}\\S* matches the same requests as \\S+ of rpc ${name}.${others}`),
    );
  });

  describe("a binding is found that", () => {
    const name = "google.firestore.v1.Firestore";
    const remove = `${name}.DeleteDocument: DELETE /v1/{name=projects/*/databases/*/documents/*/**}`;
    const insert = `${name}.CreateDocument: POST /v1/{parent=projects/*/databases/*/documents/**}/{collection_id}`;

    test.each<[problem: string, rule: Rule, binding: string]>([
      [
        "has another HTTP method",
        {
          selector: `${name}.DeleteDocument`,
          pattern: { case: "put", value: "/v1/{name=projects/*/databases/*/documents/*/**}" },
        },
        remove,
      ],
      [
        "has another template",
        {
          selector: `${name}.DeleteDocument`,
          pattern: { case: "delete", value: "/v1/{name=projects/*/databases/*/documents/*}" },
        },
        remove,
      ],
      [
        "binds another field",
        {
          selector: `${name}.CreateDocument`,
          pattern: { case: "post", value: "/v1/{parent=projects/*/databases/*/documents/**}/{document_id}" },
          body: "document",
        },
        insert,
      ],
      [
        "has another body",
        {
          selector: `${name}.CreateDocument`,
          pattern: { case: "post", value: "/v1/{parent=projects/*/databases/*/documents/**}/{collection_id}" },
          body: "*",
        },
        insert,
      ],
    ])("%s", async (_problem, rule, binding) => {
      const { wrong } = await sweep(methodsOf("google.firestore.v1"), [rule]);
      expect(wrong.filter((each) => each !== ambiguous["google.firestore.v1"])).toEqual([binding]);
    });
  });
});
