import { createFileRegistry, fromBinary, type FileRegistry } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../../../test/free-port.ts";
import { go, goEnvironment } from "../../../../test/go.ts";

const env = { ...process.env, ...goEnvironment };
const module = "github.com/grpc-ecosystem/grpc-gateway/v2";
const version = "v2.33.0";
const root = join(import.meta.dirname, "../../../..");

/** grpc-gateway's example: a gateway that its own generator has written, and the gRPC service behind it. */
export type GrpcGateway = AsyncDisposable & {
  readonly baseUrl: string;
  /** The types of its .proto files. */
  readonly types: FileRegistry;
};

/** Downloads, builds and starts the example. Returns the reason if that is not possible. */
export async function openGrpcGateway(): Promise<GrpcGateway | string> {
  if (go === undefined) {
    return "Go is not installed";
  }
  const downloaded = spawnSync(go, ["mod", "download", "-json", `${module}@${version}`], { env, encoding: "utf8" });
  if (downloaded.status !== 0) {
    return "the module can't be downloaded";
  }
  const { Dir } = JSON.parse(downloaded.stdout) as { Dir: string };
  const bin = join(root, "node_modules/.cache/grpc-gateway", `${version}-addr`);
  const failure = existsSync(bin) ? undefined : await buildPrograms(go, Dir, bin);
  if (failure !== undefined) {
    return `the module can't be built: ${failure}`;
  }
  const types = await buildTypes(Dir);
  const [grpcPort, port] = [await freePort(), await freePort()];
  const children = [
    spawn(join(bin, "example-grpc-server"), ["-addr", `127.0.0.1:${grpcPort}`], { stdio: "ignore" }),
    spawn(join(bin, "example-gateway-server"), ["-endpoint", `127.0.0.1:${grpcPort}`, "-addr", `127.0.0.1:${port}`], {
      stdio: "ignore",
    }),
  ];
  while (!(await isListening(grpcPort)) || !(await isListening(port))) {
    if (children.some(({ exitCode }) => exitCode !== null)) {
      throw new Error("the example of grpc-gateway has ended");
    }
    await delay(20);
  }
  return { baseUrl: `http://127.0.0.1:${port}`, types, [Symbol.asyncDispose]: () => stop(children) };
}

/**
 * The gateway listens on port 8080 of all interfaces, unless a flag is added to its source. Returns why it can't be built. The programs are
 * kept for the next run: with another change of the source, their folder has another name.
 */
async function buildPrograms(go: string, module: string, bin: string): Promise<string | undefined> {
  const copy = await mkdtemp(join(tmpdir(), "grpc-gateway-"));
  try {
    // The module cache is read-only.
    execFileSync("cp", ["-r", "--no-preserve=mode", `${module}/.`, copy]);
    const main = join(copy, "examples/internal/cmd/example-gateway-server/main.go");
    const source = await readFile(main, "utf8");
    const flag = 'var addr = flag.String("addr", "", "address to listen on")';
    await writeFile(
      main,
      source.replace(/Addr: +":8080"/, "Addr: *addr").replace("func main() {", `${flag}\n\nfunc main() {`),
    );
    const part = `${bin}.part`;
    await mkdir(part, { recursive: true });
    const programs = ["example-gateway-server", "example-grpc-server"].map((name) => `./examples/internal/cmd/${name}`);
    const build = ["build", "-o", `${part}/`, ...programs];
    const { status, stderr } = spawnSync(go, build, { cwd: copy, env, encoding: "utf8" });
    if (status !== 0) {
      return stderr.split("\n").at(-2);
    }
    await rename(part, bin);
    return undefined;
  } finally {
    await rm(copy, { recursive: true });
  }
}

async function stop(children: readonly ChildProcess[]): Promise<void> {
  for (const child of children) {
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
}

async function isListening(at: number): Promise<boolean> {
  const socket = connect(at, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Compiles the .proto files of the module. It does not contain the two of googleapis that this declares as far as they are used. */
async function buildTypes(module: string): Promise<FileRegistry> {
  const folder = await mkdtemp(join(tmpdir(), "grpc-gateway-"));
  try {
    const copy = (from: string, to: string) =>
      cp(from, join(folder, to), { recursive: true, filter: (name) => !/\.(?:go|json|yaml|bazel)$/.test(name) });
    await copy(join(module, "examples/internal/proto"), "examples/internal/proto");
    await copy(join(module, "protoc-gen-openapiv2/options"), "protoc-gen-openapiv2/options");
    await copy(join(import.meta.dirname, "../../proto/google"), "google");
    await mkdir(join(folder, "google/rpc"), { recursive: true });
    await writeFile(
      join(folder, "google/api/field_behavior.proto"),
      `syntax = "proto3"; package google.api; import "google/protobuf/descriptor.proto";
       extend google.protobuf.FieldOptions { repeated FieldBehavior field_behavior = 1052 [packed = false]; }
       enum FieldBehavior { FIELD_BEHAVIOR_UNSPECIFIED = 0; OPTIONAL = 1; REQUIRED = 2; OUTPUT_ONLY = 3; }`,
    );
    await writeFile(
      join(folder, "google/rpc/status.proto"),
      `syntax = "proto3"; package google.rpc; import "google/protobuf/any.proto";
       message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }`,
    );
    await writeFile(join(folder, "buf.yaml"), "version: v2\n");
    const files = ["a_bit_of_everything", "stream", "echo_service", "response_body_service"];
    const paths = files.flatMap((name) => ["--path", `examples/internal/proto/examplepb/${name}.proto`]);
    const output = join(folder, "types.binpb");
    const args = ["build", "--as-file-descriptor-set", "-o", output, ...paths];
    execFileSync(join(root, "node_modules/.bin/buf"), args, { cwd: folder });
    return createFileRegistry(fromBinary(FileDescriptorSetSchema, await readFile(output)));
  } finally {
    await rm(folder, { recursive: true });
  }
}
