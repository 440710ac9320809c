import { createPrivateKey, hash, type KeyObject, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions, type SecureVersion } from "node:tls";
import type { Logger } from "pino";
import { createPolledWatch } from "../../base/polled-watch.ts";

/** The certificate, key and authorities in use. Disposing stops watching their files. */
export interface Certificates extends Disposable {
  current(): SecureContextOptions;
  /** Expiry of the certificate in use, in Unix time. */
  notAfterMs(): number;
  /** Calls the listener with each replacement. */
  onChange(listener: (next: SecureContextOptions) => void): void;
  /** Reads the files now. If they can't be used, that is logged, and the previous certificate stays in use. */
  reload(): Promise<void>;
}

/**
 * Reads the files, and again whenever they change. Throws a CertificateError if they can't be used at start; later,
 * the previous certificate stays in use until they can.
 */
export async function openCertificates(
  given: CertificateOptions,
  log: Logger,
  { pollIntervalMs = 1_000, nowMs = Date.now }: { pollIntervalMs?: number; nowMs?: () => number } = {},
): Promise<Certificates> {
  const options: NamedOptions = { name: "tls", ...given };
  const { name } = options;
  const listeners: ((next: SecureContextOptions) => void)[] = [];
  const first = await readCertificateFiles(options);
  let inUse = loadCertificate(first, options);
  warnIfNotYetValid(name, inUse.certificate, log, nowMs());
  let handledFingerprint = fingerprintOf(first);
  let warnedMs = Number.NEGATIVE_INFINITY;

  /** Warns at most once a day, in case the automatic renewal has failed. */
  const warnBeforeExpiry = (): void => {
    const { validTo, validFromDate, validToDate } = inUse.certificate;
    const remainingMs = validToDate.getTime() - nowMs();
    // Short-lived certificates are renewed late in their validity.
    const noticeMs = Math.min(14 * dayMs, (validToDate.getTime() - validFromDate.getTime()) / 3);
    if (remainingMs < noticeMs && nowMs() - warnedMs >= dayMs) {
      warnedMs = nowMs();
      const message =
        remainingMs > 0
          ? "the certificate expires soon: renew it"
          : "the certificate has expired, clients will reject it: renew it";
      log.warn({ validTo }, `${name}.certFile: ${message}`);
    }
  };
  warnBeforeExpiry();

  const apply = (files: CertificateFiles): void => {
    handledFingerprint = fingerprintOf(files);
    const next = loadCertificate(files, options);
    if (hasExpired(next.certificate, nowMs())) {
      throw new CertificateError(
        `${name}.certFile`,
        `the certificate expired on ${next.certificate.validTo}: renew it`,
      );
    }
    inUse = next;
    for (const listener of listeners) {
      listener(inUse.context);
    }
    const { validTo, fingerprint256 } = inUse.certificate;
    log.info({ validTo, fingerprint256 }, "the certificate files were reloaded: new connections use them");
    warnIfNotYetValid(name, inUse.certificate, log, nowMs());
  };
  const logUnusable = (error: unknown): void => {
    if (!(error instanceof CertificateError)) {
      throw error;
    }
    log.error({ reason: error.message }, "the certificate files can't be used: the previous ones stay in use");
  };

  const reload = (): Promise<void> => readCertificateFiles(options).then(apply).catch(logUnusable);
  const fingerprint = (): Promise<string> =>
    readCertificateFiles(options).then(fingerprintOf, (error: CertificateError) => error.message);
  const watch = createPolledWatch(handledFingerprint, fingerprint, pollIntervalMs).start(async (found) => {
    // Otherwise `reload` was called since.
    if (found !== handledFingerprint) {
      handledFingerprint = found;
      await reload();
    }
  });
  const expiryTimer = setInterval(warnBeforeExpiry, pollIntervalMs).unref();

  return {
    current: () => inUse.context,
    notAfterMs: () => inUse.certificate.validToDate.getTime(),
    onChange: (listener) => void listeners.push(listener),
    reload,
    [Symbol.dispose]() {
      watch[Symbol.dispose]();
      clearInterval(expiryTimer);
    },
  };
}

const dayMs = 86_400_000;

function warnIfNotYetValid(
  name: string,
  { validFrom, validFromDate }: X509Certificate,
  log: Logger,
  nowMs: number,
): void {
  if (validFromDate.getTime() > nowMs) {
    log.warn({ validFrom }, `${name}.certFile: the certificate is not valid yet, clients will reject it`);
  }
}

export type CertificateOptions = {
  /** The option that has these, in messages. Defaults to `tls`. */
  readonly name?: string;
  /** PEM: the server's certificate, followed by its chain. */
  readonly certFile: string;
  /** PEM, not encrypted. */
  readonly keyFile: string;
  /** PEM: the certificate authorities of clients. */
  readonly clientCaFile?: string | undefined;
  readonly minVersion: SecureVersion;
};

/** A certificate or key file that can't be used. The message begins with the option. */
class CertificateError extends Error {
  constructor(option: string, message: string) {
    super(`${option}: ${message}`);
    this.name = "CertificateError";
  }
}

type NamedOptions = CertificateOptions & { readonly name: string };

/** The contents of the files. */
type CertificateFiles = { readonly cert: string; readonly key: string; readonly ca: string | undefined };

/** Throws a CertificateError if one of the files can't be read. */
async function readCertificateFiles({
  certFile,
  keyFile,
  clientCaFile,
  name,
}: NamedOptions): Promise<CertificateFiles> {
  // One after another, so that the error names the first of them.
  return {
    cert: await read(`${name}.certFile`, certFile),
    key: await read(`${name}.keyFile`, keyFile),
    ca: clientCaFile === undefined ? undefined : await read(`${name}.clientCaFile`, clientCaFile),
  };
}

async function read(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code = "error" } = error as NodeJS.ErrnoException;
    throw new CertificateError(option, `${path} can't be read (${code})`);
  }
}

/** A hash, so that private keys are not kept in memory for comparison. */
function fingerprintOf(files: CertificateFiles): string {
  return hash("sha256", JSON.stringify(files));
}

type LoadedCertificate = { readonly context: SecureContextOptions; readonly certificate: X509Certificate };

/** Throws a CertificateError if the files can't be used together. */
function loadCertificate({ cert, key, ca }: CertificateFiles, { name, minVersion }: NamedOptions): LoadedCertificate {
  const [certificate] = parseCertificates(`${name}.certFile`, cert);
  if (!certificate.checkPrivateKey(parseKey(`${name}.keyFile`, key))) {
    throw new CertificateError(`${name}.keyFile`, `is not the key of the certificate in ${name}.certFile`);
  }
  if (ca !== undefined) {
    parseCertificates(`${name}.clientCaFile`, ca);
  }
  const context: SecureContextOptions = { cert, key, minVersion, ...(ca !== undefined && { ca }) };
  try {
    createSecureContext(context);
  } catch (error) {
    // OpenSSL's other requirements, such as key length and hash algorithm.
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw new CertificateError(`${name}.certFile`, `the certificate and its key can't be used for TLS (${code})`);
  }
  return { context, certificate };
}

function parseCertificates(option: string, pem: string): [X509Certificate, ...X509Certificate[]] {
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

function parseKey(option: string, pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new CertificateError(option, "must contain a private key in PEM format, without a passphrase");
  }
}

export function hasExpired({ validToDate }: X509Certificate, nowMs: number = Date.now()): boolean {
  return validToDate.getTime() <= nowMs;
}
