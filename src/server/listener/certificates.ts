import { createPrivateKey, hash, type KeyObject, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setInterval } from "node:timers/promises";
import { createSecureContext, type SecureContextOptions, type SecureVersion } from "node:tls";
import type { Logger } from "pino";

export type CertificateOptions = {
  /** PEM: the server's certificate, and behind it those that lead to its authority. */
  readonly certFile: string;
  /** PEM, not encrypted. */
  readonly keyFile: string;
  /** PEM: the authorities of client certificates. */
  readonly clientCaFile?: string | undefined;
  readonly minVersion: SecureVersion;
};

/** The certificate, the key and the authorities that are in force. Disposing stops the watch over their files. */
export interface Certificates extends Disposable {
  current(): SecureContextOptions;
  /** When the one in force ends, in Unix time. */
  notAfterMs(): number;
  /** Calls back with each successor. */
  onChange(listener: (next: SecureContextOptions) => void): void;
  /** Reads the files now. Where they can't be used the log tells, and what is in force stays. */
  reload(): Promise<void>;
}

/** Files that can't be used: names the option, and says what is wrong. */
class CertificateError extends Error {
  constructor(option: keyof CertificateOptions, message: string) {
    super(`tls.${option}: ${message}`);
    this.name = "CertificateError";
  }
}

/**
 * Reads the files, and again whenever they change. Throws a CertificateError where they can't be used now;
 * later on, what is in force stays until they can.
 */
export async function openCertificates(
  options: CertificateOptions,
  log: Logger,
  { lookEveryMs = 1_000, nowMs = Date.now }: { lookEveryMs?: number; nowMs?: () => number } = {},
): Promise<Certificates> {
  const listeners: ((next: SecureContextOptions) => void)[] = [];
  const watch = new AbortController();
  const first = await readFiles(options);
  let usable = check(first, options);
  warnOfStart(usable.certificate, log);
  let dealtWith = fingerprintOf(first);
  let warnedMs = Number.NEGATIVE_INFINITY;

  /** For whoever renews it may have stopped to. */
  const warnOfEnd = (): void => {
    const { validTo, validFromDate, validToDate } = usable.certificate;
    const leftMs = validToDate.getTime() - nowMs();
    // Certificates that live for hours or days are renewed late in their lives.
    const earlyMs = Math.min(14 * dayMs, (validToDate.getTime() - validFromDate.getTime()) / 3);
    if (leftMs < earlyMs && nowMs() - warnedMs >= dayMs) {
      warnedMs = nowMs();
      const what = leftMs > 0 ? "ends soon: renew it" : "has expired, clients will refuse it";
      log.warn({ validTo }, `tls.certFile: the certificate ${what}`);
    }
  };
  warnOfEnd();

  const take = (files: Files): void => {
    dealtWith = fingerprintOf(files);
    const next = check(files, options);
    if (hasExpired(next.certificate)) {
      throw new CertificateError("certFile", `the certificate has expired, on ${next.certificate.validTo}`);
    }
    usable = next;
    for (const listener of listeners) {
      listener(usable.context);
    }
    const { validTo, fingerprint256 } = usable.certificate;
    log.info({ validTo, fingerprint256 }, "the certificate files were read again: new connections get them");
    warnOfStart(usable.certificate, log);
  };
  const refuse = (error: unknown): void => {
    if (!(error instanceof CertificateError)) {
      throw error;
    }
    log.error({ reason: error.message }, "the certificate files can't be used: the ones before stay in force");
  };

  /**
   * Looks at what the files hold. Nothing else sees every kind of change: a link that is swapped anywhere on the
   * way to a file, a network file system, a file that is replaced. What is still changing is left alone: the
   * certificate and its key are two files, and each is written in pieces.
   */
  async function lookAgain(): Promise<void> {
    let seen = dealtWith;
    for await (const _ of setInterval(lookEveryMs, undefined, { signal: watch.signal, ref: false })) {
      warnOfEnd();
      const found = await readFiles(options).catch((error: unknown) => error as CertificateError);
      const fingerprint = found instanceof Error ? found.message : fingerprintOf(found);
      const settled = fingerprint === seen;
      seen = fingerprint;
      if (!settled || fingerprint === dealtWith) {
        continue;
      }
      dealtWith = fingerprint;
      try {
        if (found instanceof Error) {
          throw found;
        }
        take(found);
      } catch (error) {
        refuse(error);
      }
    }
  }
  void lookAgain().catch((error: unknown) => {
    if (!watch.signal.aborted) {
      throw error;
    }
  });

  return {
    current: () => usable.context,
    notAfterMs: () => usable.certificate.validToDate.getTime(),
    onChange: (listener) => void listeners.push(listener),
    reload: () => readFiles(options).then(take).catch(refuse),
    [Symbol.dispose]: () => watch.abort(),
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

/** A key is not kept to see whether it has changed. */
function fingerprintOf(files: Files): string {
  return hash("sha256", JSON.stringify(files));
}

type Usable = { readonly context: SecureContextOptions; readonly certificate: X509Certificate };

function check({ cert, key, ca }: Files, { minVersion }: CertificateOptions): Usable {
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
    // Whatever else OpenSSL asks for: a key that is long enough, a hash that is not broken.
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw new CertificateError("certFile", `the certificate and its key can't be used for TLS (${code})`);
  }
  return { context, certificate };
}

function parseCertificates(option: keyof CertificateOptions, pem: string): [X509Certificate, ...X509Certificate[]] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    const [first, ...rest] = blocks.map((block) => new X509Certificate(block));
    // OpenSSL would leave out what follows a block that does not end.
    if (first !== undefined && pem.split("-----BEGIN CERTIFICATE").length === blocks.length + 1) {
      return [first, ...rest];
    }
  } catch {
    // Told below.
  }
  throw new CertificateError(option, "must hold certificates in PEM form");
}

function parseKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new CertificateError("keyFile", "must hold a private key in PEM form, without a passphrase");
  }
}

export function hasExpired({ validToDate }: X509Certificate): boolean {
  return validToDate.getTime() <= Date.now();
}

function warnOfStart({ validFrom, validFromDate }: X509Certificate, log: Logger): void {
  if (validFromDate.getTime() > Date.now()) {
    log.warn({ validFrom }, "tls.certFile: the certificate is not valid yet, clients will refuse it");
  }
}
