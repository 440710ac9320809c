import { createFileRegistry, fromBinary, type DescMethod, type FileRegistry } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { bindingsOf } from "../../bindings.ts";

const folder = dirname(createRequire(import.meta.url).resolve("google-proto-files/package.json"));
const buf = join(import.meta.dirname, "../../../../../node_modules/.bin/buf");

/** A package such as `google.pubsub.v1`, and its .proto files that contain HTTP annotations. */
export type ProtoPackage = { readonly name: string; readonly paths: readonly string[] };

/** The packages of google-proto-files with HTTP annotations, sorted by name. */
export function listPackages(): ProtoPackage[] {
  const packages = new Map<string, string[]>();
  for (const path of globSync("**/*.proto", { cwd: folder })) {
    const text = readFileSync(join(folder, path), "utf8");
    const name = /^package ([\w.]+);/m.exec(text)?.[1];
    if (name !== undefined && text.includes("(google.api.http)")) {
      packages.set(name, [...(packages.get(name) ?? []), path]);
    }
  }
  return [...packages]
    .map(([name, paths]) => ({ name, paths }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** Compiles packages, and returns their methods with HTTP annotations. Packages without such methods are omitted. */
export function compilePackages(packages: readonly ProtoPackage[]): [name: string, methods: DescMethod[]][] {
  const files = [...compile(packages.flatMap(({ paths }) => paths)).files];
  return packages
    .map(({ name }): [string, DescMethod[]] => [
      name,
      files
        .filter(({ proto }) => proto.package === name)
        .flatMap(({ services }) => services.flatMap(({ methods }) => methods))
        .filter((method) => bindingsOf(method).length > 0),
    ])
    .filter(([, methods]) => methods.length > 0);
}

function compile(paths: readonly string[]): FileRegistry {
  const output = execFileSync(
    buf,
    [
      "build",
      "--as-file-descriptor-set",
      "--exclude-source-info",
      "--output=-",
      ...paths.flatMap((path) => ["--path", path]),
    ],
    { cwd: folder, maxBuffer: Number.POSITIVE_INFINITY },
  );
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, output));
}
