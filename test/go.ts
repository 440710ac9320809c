import { spawnSync } from "node:child_process";
import { delimiter } from "node:path";

/** Those of the user, for example GOPROXY. */
const settings = Object.entries(process.env).flatMap(([name, value]) =>
  /^GO[A-Z0-9]+$/.test(name) ? [[name, value ?? ""] as const] : [],
);

/**
 * The environment of Go, and of programs that start it. All programs are built with the same flags, so that the packages that they share,
 * such as the standard library and gRPC, are compiled once: Go's cache contains them by their flags, and without `-trimpath` by their
 * folder. Without C, whose compiler would be needed too, and without symbols, which take the linker a third of its time.
 */
export const goEnvironment: Readonly<Record<string, string>> = {
  ...Object.fromEntries(settings),
  PATH: [process.env["PATH"], "/usr/local/go/bin"].join(delimiter),
  GOFLAGS: `${process.env["GOFLAGS"] ?? ""} -trimpath -buildvcs=false -ldflags=-s`.trimStart(),
  CGO_ENABLED: "0",
};

/** The go command on the PATH, or at the location of go.dev's archive, to be started in its environment. */
export const go = spawnSync("go", ["version"], { env: goEnvironment }).status === 0 ? "go" : undefined;
