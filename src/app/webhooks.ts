import { createHash } from "node:crypto";
import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import { caseOfName } from "../events/events.ts";
import { deliveryOutcomes, WebhookDelivery, type WebhookTarget } from "../events/webhooks/delivery.ts";
import { sendWebhook } from "../events/webhooks/send.ts";
import { parseSecret } from "../events/webhooks/signature.ts";
import { createTargetPolicy } from "../events/webhooks/target-policy.ts";
import type { Options } from "../options/parse.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Foundation } from "./foundation.ts";
import type { Live } from "./events.ts";

// Loaded if there are targets.

type WebhooksOptions = Pick<Foundation, "options" | "store" | "version" | "log"> & {
  readonly live: Pick<Live, "hub" | "journal">;
  readonly metrics: Metrics | undefined;
};

/** For everything from the name of the host to the status of the response. */
const timeoutMs = 10_000;

/** Delivers events to the targets, from now on or from where it has ended. Resources are added to the stack. */
export async function openWebhooks(
  { options, store: { cluster }, live: { hub, journal }, metrics, version, log }: WebhooksOptions,
  stack: AsyncDisposableStack,
): Promise<void> {
  const { network, targets } = options.webhooks;
  const policy = createTargetPolicy(network);
  const count = metrics?.countWebhooks(
    targets.map((_, at) => String(at)),
    deliveryOutcomes,
  );
  const deliveries = targets.map((each, at) => {
    const target = toTarget(each, at);
    const delivery = stack.use(
      new WebhookDelivery({
        target,
        journal,
        // Without other processes, a process that starts after a kill continues at once.
        holder: cluster?.id ?? "",
        send: (request, signal) => sendWebhook(request, { policy, timeoutMs, signal }),
        onOutcome: (outcome) => count?.(String(at), outcome),
        userAgent: `Flowgate/${version}`,
        log,
      }),
    );
    stack.use(
      hub.onEvent(({ kind }) => {
        if (kind.case !== undefined && target.kinds.has(kind.case)) {
          delivery.notify();
        }
      }),
    );
    return delivery;
  });
  await Promise.all(deliveries.map(({ started }) => started));
}

function toTarget(
  { url: text, kinds, level, secret, format }: Options["webhooks"]["targets"][number],
  at: number,
): WebhookTarget {
  const url = new URL(text);
  return {
    id: createHash("sha256").update(text).digest("base64url"),
    // Its path and query may contain secrets.
    label: `${at} ${url.host}`,
    url,
    kinds: new Set(kinds.flatMap((name) => caseOfName(name) ?? [])),
    level: level && enumValue(LogLevel, level),
    format,
    key: secret === undefined ? undefined : parseSecret(secret),
  };
}
