import { readFile } from "node:fs/promises";
import { type JWTVerifyGetKey, createLocalJWKSet, errors } from "jose";
import type { Logger } from "pino";
import { FlowgateError } from "@flowgate/flows/errors";

/** The location of an issuer's public keys, a JSON Web Key Set (RFC 7517, section 5). */
export type KeySource = { readonly url: string } | { readonly file: string };

export type KeySetOptions = {
  /** The name of the issuer. */
  readonly name: string;
  readonly source: KeySource;
  readonly log: Logger;
  readonly now: () => number;
  readonly timeoutMs?: number;
};

const refreshMs = 5 * 60_000;
/** The time between reads that tokens with an unknown key cause, since anyone can send these. */
const cooldownMs = 10_000;
const maxBytes = 1024 * 1024;

/** Rejects if the file can't be used. A URL need not respond yet: calls wait for the first response. */
export async function openKeySet(options: KeySetOptions): Promise<KeySet> {
  using stack = new DisposableStack();
  const keys = stack.use(new KeySet(options));
  const reading = keys.refresh();
  const failure = "file" in options.source ? await reading : undefined;
  if (failure !== undefined) {
    throw new Error(`adminAuth.issuers: jwksFile of ${options.name} can't be used: ${failure}`);
  }
  stack.move();
  return keys;
}

/**
 * The keys of an issuer. They are read regularly, and when a token has an unknown key. While they can't be read, the known ones stay in
 * use.
 */
export class KeySet implements Disposable {
  version = 0;
  readonly #options: KeySetOptions;
  readonly #closing = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #find: JWTVerifyGetKey = async () => {
    throw new errors.JWKSNoMatchingKey();
  };
  #text: string | undefined;
  #failure: string | undefined;
  #reading: Promise<string | undefined> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: KeySetOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.refresh(), refreshMs).unref();
  }

  /**
   * Returns the key of a token. Rejects with an error of jose if there is none, and with `unavailable` if that can't be known because the
   * keys can't be read.
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await this.#find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) {
        throw error;
      }
    }
    // While the provider is slow or down, one call in each period waits for it, so that others can't be held by it.
    if (this.#reading !== undefined ? this.#failure === undefined : !this.#isCoolingDown()) {
      await this.refresh();
    }
    if (this.#failure !== undefined) {
      throw new FlowgateError(
        "unavailable",
        `The access token can't be verified, since the keys of the issuer ${this.#options.name} can't be read now: try again.`,
        { retryAfterMs: cooldownMs },
      );
    }
    return this.#find(header, token);
  };

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#closing.abort();
  }

  /** Resolves when the keys have been read, with the reason if they could not be read. */
  refresh(): Promise<string | undefined> {
    return (this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
      this.#readAtMs = this.#options.now();
    }));
  }

  #isCoolingDown(): boolean {
    return this.#options.now() - this.#readAtMs < cooldownMs;
  }

  async #read(): Promise<string | undefined> {
    const { name, source, log, timeoutMs = 5_000 } = this.#options;
    try {
      const text = await ("file" in source
        ? readFile(source.file, "utf8")
        : download(source.url, AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#closing.signal])));
      if (text !== this.#text) {
        this.#find = createLocalJWKSet(JSON.parse(text));
        this.#text = text;
        this.version += 1;
      }
    } catch (error) {
      // Whatever the provider responds with, the service continues with the keys that it has.
      if (this.#failure === undefined && !this.#closing.signal.aborted) {
        log.error(
          { issuer: name, reason: describe(error) },
          "the keys of an issuer can't be read: the known ones stay in use",
        );
      }
      return (this.#failure = describe(error));
    }
    if (this.#failure !== undefined) {
      log.info({ issuer: name }, "the keys of an issuer can be read again");
    }
    return (this.#failure = undefined);
  }
}

async function download(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, { redirect: "error", signal, headers: { accept: "application/json" } });
  const { body, status } = response;
  if (status !== 200 || body === null) {
    await body?.cancel();
    throw new Error(`the response has the status ${status}`);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) {
      throw new Error(`the response has more than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Without the path of the file, and without text of the response. */
function describe(error: unknown): string {
  if (error instanceof SyntaxError || error instanceof errors.JOSEError) {
    return "it is not a JSON Web Key Set";
  }
  // fetch's error has a cause.
  const { cause = error } = error as Error;
  const { code, message } = cause as NodeJS.ErrnoException;
  return typeof code === "string" ? code : message;
}
