import { type DestinationStream, type LevelWithSilent, type Logger, pino, stdTimeFunctions } from "pino";

const secrets = [
  "authorization",
  "proxy-authorization",
  "cookie",
  "set-cookie",
  "password",
  "token",
  "access_token",
  "accessToken",
  "secret",
  "credentials",
  "credentialSecret",
];

/** What is logged by these names, at the top or up to two levels below, is struck out. */
const redacted = secrets.flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`]);

/** What waits for a reader that has stopped reading, at the most; what comes then is lost. */
const UNREAD_CHARS = 16 * 1024 * 1024;

/**
 * JSON lines, one an event; to standard output unless told otherwise. Written in the background: pino's
 * synchronous way stops the whole process while nobody reads.
 */
export function createLog(options: { level: LevelWithSilent; destination?: DestinationStream }): Logger {
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redacted, censor: "[redacted]" },
    },
    options.destination ?? pino.destination({ fd: 1, sync: false, maxLength: UNREAD_CHARS }),
  );
}
