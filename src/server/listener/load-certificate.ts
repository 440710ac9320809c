import { createPrivateKey, hash, type KeyObject, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions, type SecureVersion } from "node:tls";

export type CertificateOptions = {
  /** PEM: the server's certificate, followed by its chain. */
  readonly certFile: string;
  /** PEM, not encrypted. */
  readonly keyFile: string;
  /** PEM: the certificate authorities of clients. */
  readonly clientCaFile?: string | undefined;
  readonly minVersion: SecureVersion;
};

/** A certificate or key file that can't be used. The message begins with the option. */
export class CertificateError extends Error {
  constructor(option: keyof CertificateOptions, message: string) {
    super(`tls.${option}: ${message}`);
    this.name = "CertificateError";
  }
}

/** The contents of the files. */
export type CertificateFiles = { readonly cert: string; readonly key: string; readonly ca: string | undefined };

/** Throws a CertificateError if one of the files can't be read. */
export async function readCertificateFiles({
  certFile,
  keyFile,
  clientCaFile,
}: CertificateOptions): Promise<CertificateFiles> {
  const [cert, key, ca] = await Promise.all([
    read("certFile", certFile),
    read("keyFile", keyFile),
    clientCaFile === undefined ? undefined : read("clientCaFile", clientCaFile),
  ]);
  return { cert, key, ca };
}

async function read(option: keyof CertificateOptions, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code = "error" } = error as NodeJS.ErrnoException;
    throw new CertificateError(option, `${path} can't be read (${code})`);
  }
}

/** A hash, so that private keys are not kept in memory for comparison. */
export function fingerprintOf(files: CertificateFiles): string {
  return hash("sha256", JSON.stringify(files));
}

export type LoadedCertificate = { readonly context: SecureContextOptions; readonly certificate: X509Certificate };

/** Throws a CertificateError if the files can't be used together. */
export function loadCertificate(
  { cert, key, ca }: CertificateFiles,
  { minVersion }: CertificateOptions,
): LoadedCertificate {
  const [certificate] = parseCertificates("certFile", cert);
  if (!certificate.checkPrivateKey(parseKey(key))) {
    throw new CertificateError("keyFile", "is not the key of the certificate in tls.certFile");
  }
  if (ca !== undefined) {
    parseCertificates("clientCaFile", ca);
  }
  const context: SecureContextOptions = { cert, key, minVersion, ...(ca !== undefined && { ca }) };
  try {
    createSecureContext(context);
  } catch (error) {
    // OpenSSL's other requirements, such as key length and hash algorithm.
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw new CertificateError("certFile", `the certificate and its key can't be used for TLS (${code})`);
  }
  return { context, certificate };
}

function parseCertificates(option: keyof CertificateOptions, pem: string): [X509Certificate, ...X509Certificate[]] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    const [first, ...rest] = blocks.map((block) => new X509Certificate(block));
    // OpenSSL would ignore everything after an unterminated block.
    if (first !== undefined && pem.split("-----BEGIN CERTIFICATE").length === blocks.length + 1) {
      return [first, ...rest];
    }
  } catch {
    // Reported below.
  }
  throw new CertificateError(option, "must contain certificates in PEM format");
}

function parseKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new CertificateError("keyFile", "must contain a private key in PEM format, without a passphrase");
  }
}

export function hasExpired({ validToDate }: X509Certificate, nowMs: number = Date.now()): boolean {
  return validToDate.getTime() <= nowMs;
}
