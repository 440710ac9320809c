import type { X509Certificate } from "node:crypto";
import type { SecureContextOptions } from "node:tls";
import type { Logger } from "pino";
import { createPolledWatch } from "../../base/polled-watch.ts";
import {
  CertificateError,
  type CertificateFiles,
  type CertificateOptions,
  fingerprintOf,
  hasExpired,
  loadCertificate,
  readCertificateFiles,
} from "./load-certificate.ts";

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
  options: CertificateOptions,
  log: Logger,
  { pollIntervalMs = 1_000, nowMs = Date.now }: { pollIntervalMs?: number; nowMs?: () => number } = {},
): Promise<Certificates> {
  const listeners: ((next: SecureContextOptions) => void)[] = [];
  const first = await readCertificateFiles(options);
  let inUse = loadCertificate(first, options);
  warnIfNotYetValid(inUse.certificate, log, nowMs());
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

  const apply = (files: CertificateFiles): void => {
    handledFingerprint = fingerprintOf(files);
    const next = loadCertificate(files, options);
    if (hasExpired(next.certificate, nowMs())) {
      throw new CertificateError("certFile", `the certificate expired on ${next.certificate.validTo}: renew it`);
    }
    inUse = next;
    for (const listener of listeners) {
      listener(inUse.context);
    }
    const { validTo, fingerprint256 } = inUse.certificate;
    log.info({ validTo, fingerprint256 }, "the certificate files were reloaded: new connections use them");
    warnIfNotYetValid(inUse.certificate, log, nowMs());
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

function warnIfNotYetValid({ validFrom, validFromDate }: X509Certificate, log: Logger, nowMs: number): void {
  if (validFromDate.getTime() > nowMs) {
    log.warn({ validFrom }, "tls.certFile: the certificate is not valid yet, clients will reject it");
  }
}
