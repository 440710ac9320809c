import { DeploymentOutcome, type Event, LogLevel, RuntimeState } from "@flowgate/client";
import { escapeHtml } from "../editor/page.ts";
import type { RevisionUrl } from "../host.ts";

/** The messages that the editor receives over its websocket. */
export type CommsMessage = { readonly topic: string; readonly data: unknown };

const texts = new WeakMap<CommsMessage, string>();

/** A message as JSON, which is written once for all sessions. */
export function formatMessage(message: CommsMessage): string {
  return texts.getOrInsertComputed(message, () => JSON.stringify(message));
}

const shared = new WeakMap<Event, readonly CommsMessage[]>();

/** The messages for an event without a link, which are created once for all sessions. */
export function toSharedMessages(event: Event): readonly CommsMessage[] {
  return shared.getOrInsertComputed(event, () => toMessages(event));
}

/**
 * The messages that the editor receives for an event, as Node-RED sends them (@node-red/runtime's comms.js). The editor inserts the texts of
 * notifications as HTML, so they are escaped here. It escapes all other texts itself. `revisionUrl` makes deployments show a link to their
 * revision.
 */
export function toMessages(event: Event, revisionUrl?: RevisionUrl): CommsMessage[] {
  const { kind } = event;
  switch (kind.case) {
    case "nodeStatus": {
      const fields = Object.entries({ text: kind.value.text, fill: kind.value.fill, shape: kind.value.shape });
      const data = Object.fromEntries(fields.filter(([, value]) => value !== ""));
      return [{ topic: `status/${runtimeIdOf(event)}`, data }];
    }
    case "debug":
      return [{ topic: "debug", data: toDebug(event, kind.value) }];
    case "nodeError":
      // Node-RED shows those that no catch node has received.
      return kind.value.caught ? [] : [{ topic: "debug", data: toError(event, kind.value) }];
    case "deployment":
      return toDeployment(event, kind.value, revisionUrl);
    case "runtimeState":
      return silentStates.has(kind.value.state)
        ? []
        : [{ topic: "notification/runtime-state", data: toState(kind.value) }];
    case "editorMessage":
      return toModuleMessage(kind.value);
    case "dropped": {
      const { debug = 0, nodeError = 0, editorMessage = 0 } = kind.value.kinds;
      const count = debug + nodeError + editorMessage;
      return count === 0 ? [] : [{ topic: "debug", data: toWarning(`${count} messages are missing here`) }];
    }
    default:
      return [];
  }
}

type ValueOf<Case extends Event["kind"]["case"]> = Extract<Event["kind"], { case: Case }>["value"];

/** The ids of nodes in subflows, as the flow runtime composes them. */
function runtimeIdOf({ nodeId, subflowPath }: Event): string {
  return [...subflowPath, nodeId].join("-");
}

function sourceOf(event: Event): object {
  const { nodeId, nodeName, flowId, subflowPath } = event;
  const isInSubflow = subflowPath.length > 0;
  return {
    id: runtimeIdOf(event),
    z: isInSubflow ? subflowPath.join("-") : flowId,
    ...(isInSubflow && { _alias: nodeId }),
    path: flowId === "" ? "global" : [flowId, ...subflowPath].join("/"),
    ...(nodeName !== "" && { name: nodeName }),
  };
}

/** Of these formats the editor parses the value as JSON. */
const structured = /^(?:Object$|array|set|map|boolean$|number$)|error|Array\b/i;

function toDebug(event: Event, { topic, property, format, value, truncated }: ValueOf<"debug">): object {
  const mayBeBroken = truncated || value.includes("[redacted]");
  const isText = mayBeBroken && structured.test(format) && !isJson(value);
  return {
    ...sourceOf(event),
    ...(topic !== "" && { topic }),
    ...(property !== "" && { property }),
    msg: format === "bigint" ? { __enc__: true, type: "bigint", data: value } : value,
    format: isText ? `string[${value.length}]` : format,
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function toError(event: Event, { level, message, count }: ValueOf<"nodeError">): object {
  const msg = count > 1 ? `${message} (${count} times)` : message;
  return {
    ...sourceOf(event),
    type: event.nodeType,
    level: level === LogLevel.WARN ? warnLevel : errorLevel,
    msg,
    format: `string[${msg.length}]`,
  };
}

const errorLevel = 20;
const warnLevel = 30;

/** About no node. */
function toWarning(msg: string): object {
  return { id: "", name: "flowgate", level: warnLevel, msg, format: `string[${msg.length}]` };
}

function toDeployment(
  { rev }: Event,
  { outcome, failure, missingTypes }: ValueOf<"deployment">,
  revisionUrl: RevisionUrl | undefined,
): CommsMessage[] {
  const deployed: CommsMessage = { topic: "notification/runtime-deploy", data: { revision: rev } };
  if (missingTypes.length > 0) {
    const warning = { state: "stop", error: "missing-types", type: "warning" };
    const data = { ...warning, text: "notification.warnings.missing-types", types: missingTypes };
    return [deployed, { topic: "notification/runtime-state", data }];
  }
  const text = failureTexts.get(outcome);
  const notification = text === undefined ? toRevision(rev, outcome, revisionUrl) : toFailure(text, failure);
  // Without a text, it closes the one before: the editor would otherwise update that, also if it is not shown any more.
  const topic = "notification/flowgate-deployment";
  return [deployed, ...[{}, ...notification].map((data) => ({ topic, data }))];
}

function toFailure(text: string, failure: string): object[] {
  return [toNotification("error", escapeHtml(failure === "" ? text : `${text}: ${failure}`), failureTimeoutMs)];
}

function toRevision(rev: string, outcome: DeploymentOutcome, revisionUrl: RevisionUrl | undefined): object[] {
  const state = successTexts.get(outcome);
  if (state === undefined || revisionUrl === undefined) {
    return [];
  }
  const name = `<bdi>${escapeHtml(rev.slice(0, shownRevChars))}</bdi>`;
  const link = `<a href="${escapeHtml(revisionUrl(rev))}" target="_blank" rel="noopener">${name}</a>`;
  return [toNotification("success", `Revision ${link} ${state}`, revisionTimeoutMs)];
}

const successTexts: ReadonlyMap<DeploymentOutcome, string> = new Map([
  [DeploymentOutcome.RUNNING, "is running."],
  [DeploymentOutcome.STOPPED, "was deployed. The flows are stopped."],
]);

/** As commands show a revision. */
const shownRevChars = 8;

/** Long enough to click on it. */
const revisionTimeoutMs = 10_000;

const failureTexts: ReadonlyMap<DeploymentOutcome, string> = new Map([
  [DeploymentOutcome.DEGRADED, "The flows were deployed and run, but with errors"],
  [DeploymentOutcome.FAILED, "The flows were deployed, but have failed"],
]);

const failureTimeoutMs = 15_000;

/**
 * Data for the part of a module in the editor, as it was published. Of a notification, only what is shown: the editor takes its members for
 * options of its translation, and its text for HTML.
 */
function toModuleMessage({ topic, data }: ValueOf<"editorMessage">): CommsMessage[] {
  if (data === "") {
    // The flows that had published something have ended.
    return [];
  }
  const value: unknown = JSON.parse(data);
  if (!topic.startsWith("notification/")) {
    return [{ topic, data: value }];
  }
  const { text, type, timeout } = Object(value) as Readonly<Record<"text" | "type" | "timeout", unknown>>;
  const shownType = notificationTypes.find((known) => known === type) ?? "warning";
  const shownMs = typeof timeout === "number" && timeout > 0 ? timeout : undefined;
  if (typeof text !== "string" || text === "") {
    // Closes the one before.
    return [{ topic, data: {} }];
  }
  // The key of a text in the catalog of a module, which comes from its files.
  const isKey = /^[\w@/-]+(?::|\.)[\w.-]+$/.test(text);
  const notification = toNotification(shownType, escapeHtml(text), shownMs);
  return [{ topic, data: isKey ? { ...notification, text } : notification }];
}

/** Why flows have failed is part of the event of their deployment, and another replica runs those of one on standby. */
const silentStates: ReadonlySet<RuntimeState> = new Set([
  RuntimeState.FAILED,
  RuntimeState.STANDBY,
  RuntimeState.DISABLED,
]);

/** `deploy`: the editor shows no notification of its own. */
function toState({ state, message }: ValueOf<"runtimeState">): object {
  switch (state) {
    case RuntimeState.RUNNING:
      return { state: "start", deploy: true };
    case RuntimeState.SAFE:
      return { state: "safe", error: "safe-mode", type: "warning", text: "notification.warnings.safe-mode" };
    case RuntimeState.STOPPED:
      return { state: "stop" };
    case RuntimeState.RESTARTING:
      return {
        state: "stop",
        deploy: true,
        ...toNotification("warning", escapeHtml(`The flows are restarted: ${message}`)),
      };
    default:
      return { state: "stop", deploy: true };
  }
}

/**
 * A text of ours, as HTML. The editor looks its key up in its translations, which do not have it, and then replaces references in the text;
 * the escaped text contains none.
 */
function toNotification(type: (typeof notificationTypes)[number], html: string, timeout?: number): object {
  const defaultValue = html.replaceAll(/[$_]/g, (char) => `&#${char.charCodeAt(0)};`);
  return { type, text: "notification.flowgate", defaultValue, ...(timeout !== undefined && { timeout }) };
}

const notificationTypes = ["error", "warning", "success", "compact"] as const;
