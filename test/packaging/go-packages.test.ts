import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "./stage.ts";

/** Where the packages of others have the files that are not ours. */
const shared = [
  ["google/api/annotations.proto", "google.golang.org/genproto/googleapis/api/annotations;annotations"],
  ["google/api/http.proto", "google.golang.org/genproto/googleapis/api/annotations;annotations"],
  ["google/api/httpbody.proto", "google.golang.org/genproto/googleapis/api/httpbody;httpbody"],
  ["google/rpc/error_details.proto", "google.golang.org/genproto/googleapis/rpc/errdetails;errdetails"],
  ["grpc/health/v1/health.proto", "google.golang.org/grpc/health/grpc_health_v1"],
  ["grpc/reflection/v1/reflection.proto", "google.golang.org/grpc/reflection/grpc_reflection_v1"],
  ["grpc/reflection/v1alpha/reflection.proto", "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"],
];

test("every .proto file names its Go package, and those of others the package that Go programs share", () => {
  const packages = ["proto", "packages/gateway/proto"].flatMap((folder) =>
    globSync("**/*.proto", { cwd: join(root, folder) }).map((path) => {
      const [, name] = /^option go_package = "(.+)";$/m.exec(readFileSync(join(root, folder, path), "utf8")) ?? [];
      return [path, name];
    }),
  );
  const own = packages.filter(([path]) => !shared.some(([other]) => other === path));
  expect(packages).toEqual(expect.arrayContaining(shared));
  expect(own.length).toBeGreaterThan(0);
  for (const [path = "", name] of own) {
    expect(name).toMatch(new RegExp(`^flowgate/gen/${path.replace(/\/[^/]+$/, "")};\\w+$`));
  }
});
