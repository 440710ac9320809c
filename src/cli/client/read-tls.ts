import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { CliFailure } from "../failure.ts";
import type { Context } from "./config.ts";
import type { TlsOptions } from "./connection.ts";

/** Reads the certificates of a context, whose `server` has an https URL. */
export async function readTls(context: Context): Promise<TlsOptions> {
  const { caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify } = context;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const [given, missing] = certFile === undefined ? ["--key-file", "--cert-file"] : ["--cert-file", "--key-file"];
    throw new CliFailure(`${given} needs ${missing} too: a certificate and its private key belong together.`);
  }
  const tls = {
    ...(caFile !== undefined && { ca: await readPem(caFile, "--ca-file", "CERTIFICATE") }),
    ...(certFile !== undefined && { cert: await readPem(certFile, "--cert-file", "CERTIFICATE") }),
    ...(keyFile !== undefined && { key: await readPem(keyFile, "--key-file", "PRIVATE KEY") }),
  };
  try {
    createSecureContext(tls);
  } catch (error) {
    const files = [caFile, certFile, keyFile].filter((file) => file !== undefined).join(", ");
    throw new CliFailure(`These certificates cannot be used: ${files}: ${(error as Error).message}.`, { cause: error });
  }
  return {
    ...tls,
    ...(tlsServerName !== undefined && { servername: tlsServerName }),
    ...(insecureSkipTlsVerify === true && { rejectUnauthorized: false as const }),
  };
}

async function readPem(path: string, flag: string, kind: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new CliFailure(`${flag}: ${path} cannot be read: ${error.message}.`, { cause: error });
  });
  if (!new RegExp(`-----BEGIN [A-Z ]*${kind}-----`).test(text)) {
    throw new CliFailure(`${flag}: ${path} contains no ${kind.toLowerCase()} in PEM format.`);
  }
  return text;
}
