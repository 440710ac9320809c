import { visibleText } from "../components/visible-text.ts";
import { isRecord, readText, type FlowNode, type FlowNodes, type Properties } from "./flow-nodes.ts";

/** Longer labels are cut: they would be wider than the workspace. */
const maxLabelLength = 300;

/** Longer texts of statuses are cut, as they would cover other nodes. */
const maxStatusLength = 60;

/** The lines of the label that Node-RED shows of a node: its name, or what its type makes of its properties. */
export function labelOf(node: FlowNode, nodes: FlowNodes): readonly string[] {
  return labelLines(labelText(node, nodes));
}

/**
 * Node-RED breaks a label at each `\n `, written with a backslash; a second backslash prevents it. Characters by which a label could look
 * like another one are escaped, as in texts.
 */
export function labelLines(text: string): readonly string[] {
  return cut(text, maxLabelLength)
    .split(/(?<!\\)\\n /)
    .map((line) => visibleText(line.replaceAll("\\\\n ", "\\n ").replaceAll(/[ \t\n\f\r]+/g, " ")).trim())
    .map((line) => cut(line, maxLabelLength));
}

export function statusLabel(text: string): string {
  return cut(visibleText(cut(text, maxStatusLength)), maxStatusLength);
}

function cut(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}

export function nameOf(node: FlowNode, nodes: FlowNodes): string {
  return labelOf(node, nodes).join(" ") || node.type;
}

function labelText(node: FlowNode, nodes: FlowNodes): string {
  const { type, name, properties } = node;
  const subflow = nodes.subflowOf(node);
  if (subflow !== undefined) {
    return name || subflow.name || "subflow";
  }
  const own = (Object.hasOwn(labels, type) ? labels[type] : undefined)?.(node, nodes);
  return own ?? (name || readText(properties, "label") || type);
}

type Label = (node: FlowNode, nodes: FlowNodes) => string;

const labels: Readonly<Record<string, Label>> = {
  inject: injectLabel,
  debug: ({ name, properties }) => {
    const suffix = isTrue(properties["console"]) ? " ⇲" : "";
    if (properties["targetType"] === "jsonata") {
      return (name || "JSONata") + suffix;
    }
    const complete = isTrue(properties["complete"]) ? "true" : readText(properties, "complete");
    const path = complete === "" || complete === "false" ? "payload" : complete;
    return (name || (complete === "true" ? "msg" : `msg.${path}`)) + suffix;
  },
  complete: ({ name, properties }) => name || `complete: ${count(properties["scope"])}`,
  catch: ({ name, properties }) => name || scopeLabel("catch", properties, isTrue(properties["uncaught"])),
  status: ({ name, properties }) => name || scopeLabel("status", properties, false),
  "link out": ({ name, properties }) => name || (properties["mode"] === "return" ? "link return" : "link out"),
  "link call": ({ name, properties }, nodes) => {
    if (name !== "" || properties["linkType"] === "dynamic") {
      return name || "Dynamic";
    }
    const [first] = Array.isArray(properties["links"]) ? properties["links"] : [];
    const target = typeof first === "string" ? nodes.get(first) : undefined;
    return target === undefined ? "none" : target.name || "link call";
  },
  change: ({ name, properties }) => name || changeLabel(properties),
  range: ({ name, properties }) => {
    const [low, high] = [readText(properties, "minout"), readText(properties, "maxout")];
    return name || (low !== "" && high !== "" ? `${low} - ${high}` : "range");
  },
  delay: ({ name, properties }) => name || delayLabel(properties),
  trigger: ({ name, properties }) => {
    const duration = Number(readText(properties, "duration") || 0);
    const units = readText(properties, "units");
    if (name !== "") {
      return name;
    }
    return duration > 0
      ? `trigger ${duration}${units}`
      : duration < 0
        ? `resend every ${-duration}${units}`
        : "trigger & block";
  },
  exec: ({ name, properties }) =>
    name ||
    readText(properties, "command").replaceAll("\\n ", "\\\\n ") ||
    (isTrue(properties["useSpawn"]) ? "spawn" : "exec"),
  rbe: ({ name, properties }) =>
    name ||
    readText(properties, "func").replace("Eq", "").replace("rbei", "filter").replace("rbe", "filter") ||
    "filter",
  "mqtt in": ({ name, properties }) =>
    name || (properties["topicType"] === "dynamic" ? "" : readText(properties, "topic")) || "mqtt",
  "mqtt out": ({ name, properties }) => name || readText(properties, "topic") || "mqtt",
  "http in": ({ name, properties }) => {
    const url = readText(properties, "url");
    return name || (url === "" ? "http" : `[${readText(properties, "method")}] /${url.replace(/^\//, "")}`);
  },
  "http response": ({ name, properties }) => {
    const status = readText(properties, "statusCode");
    return name || (status === "" ? "http" : `http (${status})`);
  },
  "websocket in": websocketLabel,
  "websocket out": websocketLabel,
  "tcp in": ({ name, properties }) => name || addressLabel("tcp:", properties, "host"),
  "tcp out": ({ name, properties }) => name || addressLabel("tcp:", properties, "host"),
  "tcp request": ({ name, properties }) => name || addressLabel("tcp:", properties, "server"),
  "udp in": ({ name, properties }) =>
    name || addressLabel("udp ", properties, properties["multicast"] === "false" ? "" : "group"),
  "udp out": ({ name, properties }) => name || addressLabel("udp ", properties, "addr"),
  html: ({ name, properties }) => name || readText(properties, "tag") || "html",
  join: ({ name, properties }) => {
    const parts = readText(properties, "count");
    const suffix = properties["mode"] === "custom" && isNumber(parts) ? ` ${parts}` : "";
    return (name || "join") + suffix + (suffix !== "" && properties["accumulate"] === true ? "+" : "");
  },
  batch: ({ name, properties }) => {
    const [mode, size, seconds] = ["mode", "count", "interval"].map((each) => readText(properties, each));
    const suffix =
      mode === "count" && isNumber(size) ? ` ${size}` : mode === "interval" && isNumber(seconds) ? ` ${seconds}s` : "";
    return (name || "batch") + suffix;
  },
  file: ({ name, properties }) => {
    const file = fileName(properties);
    return name || (properties["overwriteFile"] === "delete" ? `delete ${file}` : file || "write file");
  },
  "file in": ({ name, properties }) => name || fileName(properties) || "read file",
  watch: ({ name, properties }) => name || readText(properties, "files") || "watch",
};

function injectLabel({ name, properties }: FlowNode): string {
  const repeat = readText(properties, "repeat");
  const suffix =
    (repeat !== "" && repeat !== "0") || readText(properties, "crontab") !== ""
      ? " ↻"
      : properties["once"] === true
        ? " ¹"
        : "";
  if (name !== "") {
    return name + suffix;
  }
  const props = (Array.isArray(properties["props"]) ? properties["props"] : []).filter(isRecord);
  const payloadProp = props.find(({ p }) => p === "payload");
  // Since Node-RED 1.1 the values of both are beside the list, which only names them.
  const payload = readText(properties, "payload") || readText(payloadProp ?? {}, "v");
  const type = readText(properties, "payloadType") || readText(payloadProp ?? {}, "vt") || "str";
  const topic = readText(properties, "topic");
  if (["string", "str", "num", "bool", "json"].includes(type)) {
    if (topic !== "" && topic.length + payload.length <= 32) {
      return `${topic}:${payload}${suffix}`;
    }
    return (payload.length > 0 && payload.length < 24 ? payload : "inject") + suffix;
  }
  if (type === "date" || type === "bin" || type === "env") {
    const text = { date: "timestamp", bin: "buffer", env: "env variable" }[type];
    return (topic !== "" && topic.length <= 16 ? `${topic}:${text}` : text) + suffix;
  }
  return (type === "flow" || type === "global" ? `${type}.${contextKey(payload)}` : "inject") + suffix;
}

function changeLabel(properties: Properties): string {
  const { rules } = properties;
  if (!Array.isArray(rules)) {
    const action = readText(properties, "action");
    const verb = action === "replace" ? "set" : action === "change" || action === "move" ? action : "delete";
    return `${verb} msg.${readText(properties, "property")}`;
  }
  const [rule] = rules;
  if (rules.length !== 1 || !isRecord(rule)) {
    return `change: ${rules.length} rules`;
  }
  const action = readText(rule, "t");
  const verb = action === "set" || action === "change" || action === "move" ? action : "delete";
  return `${verb} ${readText(rule, "pt") || "msg"}.${contextKey(readText(rule, "p"))}`;
}

function delayLabel(properties: Properties): string {
  const pause = readText(properties, "pauseType");
  if (pause === "delayv") {
    return "variable";
  }
  if (pause === "delay") {
    const units = readText(properties, "timeoutUnits");
    return `delay ${readText(properties, "timeout")}${units === "milliseconds" ? "ms" : units.charAt(0) || "s"}`;
  }
  if (pause === "random") {
    return "random";
  }
  const units = readText(properties, "rateUnits").charAt(0);
  const several = Number(readText(properties, "nbRateUnits")) > 1 ? readText(properties, "nbRateUnits") : "";
  const rate = `${readText(properties, "rate")} msg/${units === "" ? "s" : several + units}`;
  return `${pause === "rate" ? "limit" : pause === "burst" ? "burst" : "limit topic"} ${rate}`;
}

function scopeLabel(word: string, { scope }: Properties, isUncaught: boolean): string {
  if (scope === "group") {
    return `${word}: group`;
  }
  return `${word}: ${Array.isArray(scope) ? scope.length : isUncaught ? "uncaught" : "all"}`;
}

function websocketLabel({ name, properties }: FlowNode, nodes: FlowNodes): string {
  const config = nodes.get(readText(properties, "client") || readText(properties, "server"));
  return name || (config === undefined ? "websocket" : `[ws] ${readText(config.properties, "path")}`);
}

function addressLabel(scheme: string, properties: Properties, host: string): string {
  const name = readText(properties, host);
  return `${scheme}${name === "" ? "" : `${name}:`}${readText(properties, "port")}`;
}

function fileName(properties: Properties): string {
  const type = readText(properties, "filenameType");
  const name = readText(properties, "filename");
  return type === "env" ? `env.${name}` : type === "str" ? name : "";
}

/** Without the context store that it names: `#:(store)::key`. */
function contextKey(text: string): string {
  return /^#:\((.+)\)::(.*)$/s.exec(text)?.[2] ?? text;
}

function count(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}

function isTrue(value: unknown): boolean {
  return value === true || value === "true";
}

function isNumber(text: string | undefined): boolean {
  return text !== undefined && text !== "" && !Number.isNaN(Number(text));
}
