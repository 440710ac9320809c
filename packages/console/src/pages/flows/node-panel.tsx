import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { useMutation, useTransport } from "@connectrpc/connect-query";
import {
  type Event,
  EventKind,
  EventsService,
  formatDebugValue,
  LogLevel,
  type NodeState,
  RuntimeService,
} from "@flowgate/client";
import { Link } from "wouter";
import { detectLanguage } from "../../components/code-language.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { Fact } from "../../components/fact.tsx";
import { tabPath } from "../../components/node-path.ts";
import { Sign } from "../../components/sign.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import type { FlowNode, FlowNodes } from "../../flow-view/flow-nodes.ts";
import { nameOf } from "../../flow-view/labels.ts";
import type { NodeStatus } from "../../flow-view/overlays.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/flows.ts";
import { NodeChanges } from "./node-changes.tsx";
import type { LastError } from "./node-states.ts";
import { createClient, type Transport } from "@connectrpc/connect";
import { Problem } from "../../components/notice.tsx";

export function NodePanel({
  nodes,
  id,
  state,
  status,
  errors,
  lastError,
  onClose,
}: {
  readonly nodes: FlowNodes;
  readonly id: string;
  readonly state: NodeState | undefined;
  readonly status: NodeStatus | undefined;
  readonly errors: number;
  readonly lastError: LastError | undefined;
  readonly onClose: () => void;
}): ReactNode {
  const node = nodes.get(id);
  const { can } = useSession();
  const heading = (
    <div className="page-heading">
      <h2>{node === undefined ? texts.node : visibleText(nameOf(node, nodes))}</h2>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
  if (node === undefined) {
    return (
      <aside className="card flows-panel" aria-label={texts.node}>
        {heading}
        <p>The selected node is not in the active flows. It may have been removed.</p>
        {can("revisions.read") ? <NodeChanges id={id} /> : null}
      </aside>
    );
  }
  return (
    <aside className="card flows-panel" aria-label={texts.node}>
      {heading}
      <Facts node={node} nodes={nodes} state={state} status={status} />
      {can("runtime.inject") && node.position !== undefined && node.type !== "group" ? (
        <Inject node={node} name={nameOf(node, nodes)} />
      ) : null}
      <Errors last={lastError} count={errors} />
      <PropertyList node={node} />
      {can("debug.read") && node.type !== "group" ? <DebugMessages id={id} /> : null}
      {can("revisions.read") ? <NodeChanges id={id} /> : null}
    </aside>
  );
}

function Facts({
  node,
  nodes,
  state,
  status,
}: {
  readonly node: FlowNode;
  readonly nodes: FlowNodes;
  readonly state: NodeState | undefined;
  readonly status: NodeStatus | undefined;
}): ReactNode {
  const subflow = nodes.subflowOf(node);
  const group = nodes.get(node.group ?? "");
  const targets = [...new Set(node.wires.flat())].flatMap((id) => nodes.get(id) ?? []);
  return (
    <dl className="facts">
      <Fact name="Type">{visibleText(subflow === undefined ? node.type : `${node.type} (${subflow.name})`)}</Fact>
      <Fact name="Id">
        <code>{visibleText(node.id)}</code>
      </Fact>
      <Fact name={texts.disable}>{node.isDisabled ? texts.disabled : null}</Fact>
      <Fact name="Status">
        {status && visibleText([status.fill, status.shape, status.text].filter(Boolean).join(", "))}
      </Fact>
      {state === undefined || state.messages === 0 ? null : (
        <Fact name="Messages received">
          {state.messages.toLocaleString("en")} <Time at={state.lastMessageTime} />
        </Fact>
      )}
      <Fact name="Group">{group && visibleText(group.name || group.id)}</Fact>
      <Fact name="Wired to">{targets.map((each) => visibleText(nameOf(each, nodes))).join(", ")}</Fact>
      <Fact name="Open the subflow">
        {subflow && <Link href={tabPath(subflow.id)}>{visibleText(subflow.name || subflow.id)}</Link>}
      </Fact>
    </dl>
  );
}

function Inject({ node, name }: { readonly node: FlowNode; readonly name: string }): ReactNode {
  const inject = useMutation(RuntimeService.method.injectNode);
  return (
    <div className="actions">
      <ConfirmButton
        label={texts.inject}
        title={texts.injectTitle(visibleText(name))}
        description={
          node.type === "inject"
            ? "The node sends its configured message now, and the flow acts on it."
            : "The node receives an empty message now, and acts on it."
        }
        confirm={texts.inject}
        onConfirm={() => inject.mutateAsync(node.type === "inject" ? { id: node.id } : { id: node.id, message: {} })}
      />
    </div>
  );
}

function Errors({ last, count }: { readonly last: LastError | undefined; readonly count: number }): ReactNode {
  return (
    <section>
      <h3>Errors</h3>
      {count === 0 ? (
        <p className="muted">No errors were logged since the node was started.</p>
      ) : (
        <Sign tone="bad">{texts.errors(count)}</Sign>
      )}
      {last === undefined ? null : (
        <div className="flows-error">
          <p className="muted">
            {last.error.level === LogLevel.WARN ? "Last warning" : "Last error"} <Time at={last.time} />
            {last.error.line > 0 ? ` · ${texts.place(last.error.line, last.error.column)}` : ""}
            {last.error.caught ? ` · handled by a catch node` : ""}
          </p>
          <pre>{`${last.error.message}\n${last.error.stack}`.trimEnd().split("\n").map(visibleText).join("\n")}</pre>
        </div>
      )}
    </section>
  );
}

/** They have a place of their own in the panel or in the picture. */
const shownElsewhere: ReadonlySet<string> = new Set([
  "id",
  "type",
  "z",
  "g",
  "x",
  "y",
  "w",
  "h",
  "wires",
  "name",
  "d",
  "l",
]);

function PropertyList({ node }: { readonly node: FlowNode }): ReactNode {
  const entries = Object.entries(node.properties).filter(
    ([name, value]) => !shownElsewhere.has(name) && value !== "" && value !== undefined && value !== null,
  );
  const short = entries.filter(([, value]) => !isLong(value));
  const long = entries.filter(([, value]) => isLong(value));
  return (
    <section>
      <h3>Properties</h3>
      {entries.length === 0 ? <p className="muted">This node has no other properties.</p> : null}
      {short.length === 0 ? null : (
        <dl className="facts">
          {short.map(([name, value]) => (
            <Fact key={name} name={visibleText(name)}>
              {visibleText(typeof value === "string" ? value : JSON.stringify(value))}
            </Fact>
          ))}
        </dl>
      )}
      {long.map(([name, value]) => (
        <LongProperty key={name} name={name} value={value} />
      ))}
    </section>
  );
}

/** Highlights code. It is loaded when code is shown first. */
const CodeViewer = lazy(async () => ({ default: (await import("../../components/code-viewer.tsx")).CodeViewer }));

function LongProperty({ name, value }: { readonly name: string; readonly value: unknown }): ReactNode {
  const [isOpen, setOpen] = useState(name === "func" || name === "template");
  const text = typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
  const language = typeof value === "string" ? detectLanguage(name, [value]) : "json";
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{visibleText(name)}</summary>
      {isOpen ? (
        <Suspense fallback={<pre className="code-waiting">{text}</pre>}>
          <CodeViewer text={text} language={language} label={visibleText(name)} />
        </Suspense>
      ) : null}
    </details>
  );
}

/** True for code, and for structured values. */
function isLong(value: unknown): boolean {
  return typeof value === "string" ? value.includes("\n") || value.length > 200 : JSON.stringify(value).length > 100;
}

const maxMessages = 20;

const maxLength = 4_000;

/** The debug messages of a node while this is shown. They are not recorded. */
function DebugMessages({ id }: { readonly id: string }): ReactNode {
  const transport = useTransport();
  const [messages, setMessages] = useState<readonly Event[]>([]);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    watchMessages(transport, id, signal, (event) =>
      setMessages((known) => [event, ...known].slice(0, maxMessages)),
    ).catch((thrown: unknown) => (signal.aborted ? undefined : setError(thrown)));
    return () => controller.abort();
  }, [id, transport]);
  return (
    <section>
      <h3>Debug messages</h3>
      {error === undefined ? null : <Problem error={error} />}
      {messages.length === 0 ? (
        <p className="muted">Those that the node sends from now on appear here. Debug nodes send them.</p>
      ) : null}
      <ol className="flows-messages">
        {messages.map((event) => (
          <Message key={event.id} event={event} />
        ))}
      </ol>
    </section>
  );
}

async function watchMessages(
  transport: Transport,
  node: string,
  signal: AbortSignal,
  onMessage: (event: Event) => void,
): Promise<void> {
  const client = createClient(EventsService, transport);
  for await (const event of client.watchEvents({ kinds: [EventKind.DEBUG], node }, { signal })) {
    if (event.kind.case === "debug") {
      onMessage(event);
    }
  }
}

function Message({ event: { kind, time } }: { readonly event: Event }): ReactNode {
  if (kind.case !== "debug") {
    return null;
  }
  const { topic, property, format, truncated } = kind.value;
  const value = formatDebugValue(kind.value);
  return (
    <li>
      <span className="muted">
        <Time at={time} />{" "}
        {[topic, property, format, truncated || value.length > maxLength ? "shortened" : ""]
          .filter(Boolean)
          .map(visibleText)
          .join(" · ")}
      </span>
      <pre>{value.slice(0, maxLength)}</pre>
    </li>
  );
}
