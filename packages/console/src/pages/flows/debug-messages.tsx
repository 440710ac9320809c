import { type ReactNode, useEffect, useState } from "react";
import { createClient, type Transport } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { type Event, EventKind, EventsService } from "@flowgate/client";
import { Problem } from "../../components/notice.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/flows.ts";

const maxMessages = 20;

const maxLength = 4_000;

/** What a node sends to the debug sidebar while this is shown; it is not recorded. */
export function DebugMessages({ id }: { readonly id: string }): ReactNode {
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
      <h3>{texts.messages}</h3>
      {error === undefined ? null : <Problem error={error} />}
      {messages.length === 0 ? <p className="muted">{texts.waiting}</p> : null}
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
  const { topic, property, format, value, truncated } = kind.value;
  return (
    <li>
      <span className="muted">
        <Time at={time} />{" "}
        {[topic, property, format, truncated || value.length > maxLength ? texts.truncated : ""]
          .filter(Boolean)
          .map(visibleText)
          .join(" · ")}
      </span>
      <pre>{value.slice(0, maxLength)}</pre>
    </li>
  );
}
