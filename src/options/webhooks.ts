import * as z from "zod";
import { recordedNames } from "../events/events.ts";
import { parseSecret } from "../events/webhooks/signature.ts";
import { isTargetEntry } from "../events/webhooks/target-policy.ts";
import { isPlainUrl, listOf, oneOf, rejectDuplicates } from "./values.ts";

const levels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;

const entries = listOf(
  z
    .string("must be an address, a subnet or a host name")
    .refine(
      (entry) => isTargetEntry(entry),
      "must be an address, a subnet or a host name, with or without a port, such as 10.0.0.0/8, 192.0.2.1:443, relay.internal:8443 or *:443",
    ),
  "addresses, subnets and host names",
);

const target = z.strictObject({
  url: z
    .string("must be a URL")
    .refine(
      isPlainUrl,
      "must be an http or https URL such as https://hooks.example/flowgate, without user and password",
    )
    .describe("Where events are sent by POST. It is not logged, except for its host. Must be unique."),
  kinds: z
    .array(oneOf(recordedNames), "must be a list of kinds")
    .min(1, "must name at least one kind")
    .readonly()
    .describe(`The kinds of events that are sent: ${recordedNames.map((name) => `\`${name}\``).join(", ")}.`),
  level: oneOf(levels)
    .optional()
    .describe("The lowest level of logs and errors that are sent. Absent: all that are recorded."),
  secret: z
    .string("must be text")
    .refine(
      (secret) => parseSecret(secret) !== undefined,
      "must be whsec_ and the Base64 of 24 to 64 random bytes, as `openssl rand -base64 32` prints them",
    )
    .optional()
    .describe(
      "Secret that requests are signed with, as Standard Webhooks are: `whsec_` and the Base64 of 24 to 64 random bytes. Never logged. Absent: they are not signed.",
    ),
  format: oneOf(["event", "slack"])
    .default("event")
    .describe(
      "The body: `event`, with all fields, or `slack`, one line of text in the form that Slack and similar chats accept.",
    ),
});

export const webhooks = z
  .strictObject({
    network: z
      .strictObject({
        allow: entries
          .optional()
          .describe(
            "Permitted targets of webhooks, in the form of `runtime.network.allow`, or by the host name in the URL. Addresses that are not public (loopback, private, link-local with the metadata services of clouds) require an entry other than `*`. Absent: all public addresses.",
          ),
        deny: entries
          .default([])
          .describe("Forbidden targets of webhooks, in the same form. Takes precedence over `webhooks.network.allow`."),
      })
      .prefault({}),
    targets: z
      .array(target, "must be a list of targets")
      .superRefine((targets, context) => rejectDuplicates(targets, "url", "targets", context))
      .readonly()
      .default([])
      .describe("The receivers of events. Requires the journal (`live.journal`)."),
  })
  .prefault({});
