import { createRegistry, type DescFile, type DescMethod, type Registry } from "@bufbuild/protobuf";
import {
  file_google_protobuf_any,
  file_google_protobuf_duration,
  file_google_protobuf_empty,
  file_google_protobuf_field_mask,
  file_google_protobuf_struct,
  file_google_protobuf_timestamp,
  file_google_protobuf_wrappers,
} from "@bufbuild/protobuf/wkt";

/** The types with a special JSON form, and Empty. */
const wellKnown = [
  file_google_protobuf_any,
  file_google_protobuf_duration,
  file_google_protobuf_empty,
  file_google_protobuf_field_mask,
  file_google_protobuf_struct,
  file_google_protobuf_timestamp,
  file_google_protobuf_wrappers,
];

/** A registry of all types in the files of the methods, in their transitive imports, and the well-known types. */
export function createReachableRegistry(methods: readonly DescMethod[]): Registry {
  return createRegistry(...withDependencies([...wellKnown, ...methods.map(({ parent }) => parent.file)]));
}

/** The files, followed by their transitive dependencies without duplicates. */
export function withDependencies(files: readonly DescFile[]): ReadonlySet<DescFile> {
  const found = new Set(files);
  // Iterating a Set includes the elements that are added during the iteration.
  for (const { dependencies } of found) {
    for (const dependency of dependencies) {
      found.add(dependency);
    }
  }
  return found;
}
