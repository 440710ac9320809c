import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { createFileRegistry, fromBinary, type DescService } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema, type FileDescriptorSet } from "@bufbuild/protobuf/wkt";

const root = resolve(import.meta.dirname, "../../../..");

/** The folders of the files that a .proto can import. */
const sources = [join(root, "packages/gateway/proto"), join(import.meta.dirname, "proto")];

/** Compiles the text of a .proto, which can import files of google/api. */
export async function compileProto(text: string): Promise<FileDescriptorSet> {
  const module = await mkdtemp(join(tmpdir(), "openapi-proto-"));
  try {
    await writeFile(join(module, "test.proto"), text);
    const imports = new Set([...text.matchAll(/^import "(google\/api\/.*?)";/gm)].map(([, name = ""]) => name));
    for (const name of imports.has("google/api/annotations.proto") ? [...imports, "google/api/http.proto"] : imports) {
      await mkdir(dirname(join(module, name)), { recursive: true });
      await copyFile(join(sources[0] ?? "", name), join(module, name)).catch(() =>
        copyFile(join(sources[1] ?? "", name), join(module, name)),
      );
    }
    const buf = join(root, "node_modules/.bin/buf");
    const args = ["build", module, "--as-file-descriptor-set", "-o", "-"];
    const { stdout } = await promisify(execFile)(buf, args, { encoding: "buffer", cwd: module });
    return fromBinary(FileDescriptorSetSchema, stdout);
  } finally {
    await rm(module, { recursive: true });
  }
}

export function serviceOf(set: FileDescriptorSet, name: string): DescService {
  const service = createFileRegistry(set).getService(name);
  if (service === undefined) {
    throw new Error(`the .proto has no service ${name}`);
  }
  return service;
}
