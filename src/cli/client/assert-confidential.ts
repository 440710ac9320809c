import { CliFailure } from "../failure.ts";
import type { Connection } from "./connection.ts";

/** Throws a CliFailure if others on the network could read what is about to be sent. */
export function assertConfidential({ server, isInsecure }: Connection, secret: "password" | "token"): void {
  if (isInsecure) {
    throw new CliFailure(
      `The ${secret} was not sent: ${server} is not encrypted, and others on the network could read it. ` +
        "Use an https:// URL, or --insecure-allow-http in a network that encrypts by itself, such as a service mesh.",
    );
  }
}
