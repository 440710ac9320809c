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
  "previousCredentialSecrets",
];

/** Properties of these names are redacted, at the top level and up to two levels below. */
const redacted = secrets.flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`]);

/** Length of the output buffer while its reader does not read; further lines are dropped. */
const maxBufferedChars = 16 * 1024 * 1024;

/**
 * Logs JSON lines, one per event, to standard output by default. Writes asynchronously: pino's synchronous mode blocks
 * the process while the output is not read.
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
    options.destination ?? pino.destination({ fd: 1, sync: false, maxLength: maxBufferedChars }),
  );
}
