import { createPrivateKey, hash, type KeyObject, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions, type SecureVersion } from "node:tls";
import type { Logger } from "pino";
import { createPolledWatch } from "@flowgate/base/polled-watch";

/** The certificate, key and authorities in use. Disposing stops watching their files. */
export interface Certificates extends Disposable {
  current(): SecureContextOptions;
  /** Expiry of the certificate in use, in Unix time. */
  notAfterMs(): number;
  onChange(listener: (next: SecureContextOptions) => void): void;
  /** Reads the files now. If they can't be used, that is logged, and the previous certificate stays in use. */
  reload(): Promise<void>;
}

/**
 * Reads the files, and again whenever they change. Throws a CertificateError if they can't be used at start; later,
 * the previous certificate stays in use until they can.
 */
export async function openCertificates(
  options: CertificateOptions,
  log: Logger,
  { pollIntervalMs = 1_000, nowMs = Date.now }: Timing = {},
): Promise<Certificates> {
  const named: NamedOptions = { name: "tls", ...options };
  return new WatchedCertificates(named, await readCertificateFiles(named), log, { pollIntervalMs, nowMs });
}

class WatchedCertificates implements Certificates {
  readonly #options: NamedOptions;
  readonly #log: Logger;
  readonly #nowMs: () => number;
  readonly #listeners: ((next: SecureContextOptions) => void)[] = [];
  readonly #subscriptions = new DisposableStack();
  #inUse: LoadedCertificate;
  #handledFingerprint: string;
  #warnedMs = Number.NEGATIVE_INFINITY;

  constructor(
    options: NamedOptions,
    first: CertificateFiles,
    log: Logger,
    { pollIntervalMs, nowMs }: Required<Timing>,
  ) {
    this.#options = options;
    this.#log = log;
    this.#nowMs = nowMs;
    this.#inUse = loadCertificate(first, options);
    this.#handledFingerprint = fingerprintOf(first);
    this.#warnIfNotYetValid();
    this.#warnBeforeExpiry();
    const fingerprint = (): Promise<string> =>
      readCertificateFiles(options).then(fingerprintOf, (error: CertificateError) => error.message);
    this.#subscriptions.use(
      createPolledWatch(this.#handledFingerprint, fingerprint, pollIntervalMs).start(async (found) => {
        // Otherwise `reload` was called since.
        if (found !== this.#handledFingerprint) {
          this.#handledFingerprint = found;
          await this.reload();
        }
      }),
    );
    const timer = setInterval(() => this.#warnBeforeExpiry(), pollIntervalMs).unref();
    this.#subscriptions.defer(() => clearInterval(timer));
  }

  current(): SecureContextOptions {
    return this.#inUse.context;
  }

  notAfterMs(): number {
    return this.#inUse.certificate.validToDate.getTime();
  }

  onChange(listener: (next: SecureContextOptions) => void): void {
    this.#listeners.push(listener);
  }

  async reload(): Promise<void> {
    try {
      this.#apply(await readCertificateFiles(this.#options));
    } catch (error) {
      if (!(error instanceof CertificateError)) {
        throw error;
      }
      this.#log.error({ reason: error.message }, "the certificate files can't be used: the previous ones stay in use");
    }
  }

  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
  }

  #apply(files: CertificateFiles): void {
    this.#handledFingerprint = fingerprintOf(files);
    const next = loadCertificate(files, this.#options);
    if (hasExpired(next.certificate, this.#nowMs())) {
      throw new CertificateError(
        `${this.#options.name}.certFile`,
        `the certificate expired on ${next.certificate.validTo}: renew it`,
      );
    }
    this.#inUse = next;
    for (const listener of this.#listeners) {
      listener(next.context);
    }
    const { validTo, fingerprint256 } = next.certificate;
    this.#log.info({ validTo, fingerprint256 }, "the certificate files were reloaded: new connections use them");
    this.#warnIfNotYetValid();
  }

  #warnIfNotYetValid(): void {
    const { validFrom, validFromDate } = this.#inUse.certificate;
    if (validFromDate.getTime() > this.#nowMs()) {
      const message = "the certificate is not valid yet, clients will reject it";
      this.#log.warn({ validFrom }, `${this.#options.name}.certFile: ${message}`);
    }
  }

  /** Warns at most once a day, in case the automatic renewal has failed. */
  #warnBeforeExpiry(): void {
    const nowMs = this.#nowMs();
    const { validTo, validFromDate, validToDate } = this.#inUse.certificate;
    const remainingMs = validToDate.getTime() - nowMs;
    // Short-lived certificates are renewed late in their validity.
    const noticeMs = Math.min(14 * dayMs, (validToDate.getTime() - validFromDate.getTime()) / 3);
    if (remainingMs < noticeMs && nowMs - this.#warnedMs >= dayMs) {
      this.#warnedMs = nowMs;
      const message =
        remainingMs > 0
          ? "the certificate expires soon: renew it"
          : "the certificate has expired, clients will reject it: renew it";
      this.#log.warn({ validTo }, `${this.#options.name}.certFile: ${message}`);
    }
  }
}

const dayMs = 86_400_000;

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

type Timing = { readonly pollIntervalMs?: number; readonly nowMs?: () => number };

type NamedOptions = CertificateOptions & { readonly name: string };

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
