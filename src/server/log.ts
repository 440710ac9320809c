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

/** JSON lines, one an event; to standard output unless told otherwise. */
export function createLog(options: { level: LevelWithSilent; destination?: DestinationStream }): Logger {
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redacted, censor: "[redacted]" },
    },
    options.destination ?? pino.destination(1),
  );
}
