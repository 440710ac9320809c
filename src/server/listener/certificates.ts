import { createPrivateKey, hash, type KeyObject, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setInterval } from "node:timers/promises";
import { createSecureContext, type SecureContextOptions, type SecureVersion } from "node:tls";
import type { Logger } from "pino";

export type CertificateOptions = {
  /** PEM: the server's certificate, followed by its chain. */
  readonly certFile: string;
  /** PEM, not encrypted. */
  readonly keyFile: string;
  /** PEM: the certificate authorities of clients. */
  readonly clientCaFile?: string | undefined;
  readonly minVersion: SecureVersion;
};

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

/** A certificate or key file that can't be used. The message begins with the option. */
class CertificateError extends Error {
  constructor(option: keyof CertificateOptions, message: string) {
    super(`tls.${option}: ${message}`);
    this.name = "CertificateError";
  }
}

/**
 * Reads the files, and again whenever they change. Throws a CertificateError if they can't be used at start; later,
 * the previous certificate stays in use until they can.
 */
export async function openCertificates(
  options: CertificateOptions,
  log: Logger,
  { pollIntervalMs = 1_000, nowMs = Date.now }: { pollIntervalMs?: number; nowMs?: () => number } = {},
): Promise<Certificates> {
  const listeners: ((next: SecureContextOptions) => void)[] = [];
  const polling = new AbortController();
  const first = await readFiles(options);
  let inUse = check(first, options);
  warnIfNotYetValid(inUse.certificate, log);
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
          ? "tls.certFile: the certificate expires soon: renew it"
          : "tls.certFile: the certificate has expired, clients will reject it: renew it";
      log.warn({ validTo }, message);
    }
  };
  warnBeforeExpiry();

  const apply = (files: Files): void => {
    handledFingerprint = fingerprintOf(files);
    const next = check(files, options);
    if (hasExpired(next.certificate)) {
      throw new CertificateError("certFile", `the certificate expired on ${next.certificate.validTo}: renew it`);
    }
    inUse = next;
    for (const listener of listeners) {
      listener(inUse.context);
    }
    const { validTo, fingerprint256 } = inUse.certificate;
    log.info({ validTo, fingerprint256 }, "the certificate files were reloaded: new connections use them");
    warnIfNotYetValid(inUse.certificate, log);
  };
  const logUnusable = (error: unknown): void => {
    if (!(error instanceof CertificateError)) {
      throw error;
    }
    log.error({ reason: error.message }, "the certificate files can't be used: the previous ones stay in use");
  };

  /**
   * Polls the contents of the files. File system events miss some changes: a replaced symbolic link in the path, network
   * file systems. A change is applied only after two equal polls, since the certificate and its key are two files
   * that are not written atomically.
   */
  async function pollFiles(): Promise<void> {
    let previous = handledFingerprint;
    for await (const _ of setInterval(pollIntervalMs, undefined, { signal: polling.signal, ref: false })) {
      warnBeforeExpiry();
      const found = await readFiles(options).catch((error: unknown) => error as CertificateError);
      const fingerprint = found instanceof Error ? found.message : fingerprintOf(found);
      const settled = fingerprint === previous;
      previous = fingerprint;
      if (!settled || fingerprint === handledFingerprint) {
        continue;
      }
      handledFingerprint = fingerprint;
      try {
        if (found instanceof Error) {
          throw found;
        }
        apply(found);
      } catch (error) {
        logUnusable(error);
      }
    }
  }
  void pollFiles().catch((error: unknown) => {
    if (!polling.signal.aborted) {
      throw error;
    }
  });

  return {
    current: () => inUse.context,
    notAfterMs: () => inUse.certificate.validToDate.getTime(),
    onChange: (listener) => void listeners.push(listener),
    reload: () => readFiles(options).then(apply).catch(logUnusable),
    [Symbol.dispose]: () => polling.abort(),
  };
}

const dayMs = 86_400_000;

type Files = { readonly cert: string; readonly key: string; readonly ca: string | undefined };

async function readFiles({ certFile, keyFile, clientCaFile }: CertificateOptions): Promise<Files> {
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
function fingerprintOf(files: Files): string {
  return hash("sha256", JSON.stringify(files));
}

type LoadedCertificate = { readonly context: SecureContextOptions; readonly certificate: X509Certificate };

function check({ cert, key, ca }: Files, { minVersion }: CertificateOptions): LoadedCertificate {
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

export function hasExpired({ validToDate }: X509Certificate): boolean {
  return validToDate.getTime() <= Date.now();
}

function warnIfNotYetValid({ validFrom, validFromDate }: X509Certificate, log: Logger): void {
  if (validFromDate.getTime() > Date.now()) {
    log.warn({ validFrom }, "tls.certFile: the certificate is not valid yet, clients will reject it");
  }
}
