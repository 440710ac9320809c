import { createFileRegistry, fromBinary, type DescMethod, type FileRegistry } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installOnce } from "../../../../../test/packaging/install-once.ts";
import { bindingsOf } from "../../bindings.ts";

/** 7,243 files, 83 MB, that nothing else needs. */
const installation = await installOnce({ "google-proto-files": "6.0.1" });
/** Why there are no files; undefined: there are. */
export const missingProtoFiles = installation.missing;
const folder = join(installation.folder, "google-proto-files");
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
  const files = [...compileFiles(packages.flatMap(({ paths }) => paths)).files];
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

/** Compiles files, or all of folders. */
export function compileFiles(paths: readonly string[]): FileRegistry {
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
