import { type Command, Option } from "commander";

/** The flags by which a client command finds its server. */
export type ConnectionFlags = {
  readonly server?: string;
  readonly context?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly tlsServerName?: string;
  readonly insecureSkipTlsVerify?: true;
  readonly timeout?: string;
  readonly output?: OutputFormat;
};

export type OutputFormat = "json" | "yaml";

/** Adds the flags of all client commands. */
export function addConnectionOptions(root: Command): void {
  root
    .option("-s, --server <url>", "URL of the server, or unix:<path> (env: FLOWGATE_SERVER)")
    .option("--context <name>", "context of the configuration to use (env: FLOWGATE_CONTEXT)")
    .option("--ca-file <path>", "certificates to trust, PEM")
    .option("--cert-file <path>", "certificate of the client, PEM")
    .option("--key-file <path>", "key of the client's certificate, PEM")
    .option("--tls-server-name <name>", "name that the server's certificate must have")
    .option("--insecure-skip-tls-verify", "accept any certificate of the server")
    .option("--timeout <seconds>", "how long to wait for the server")
    .addOption(new Option("-o, --output <format>", "print for programs").choices(["json", "yaml"]));
}
