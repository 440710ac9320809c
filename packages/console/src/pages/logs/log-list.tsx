import { type ReactNode, useEffect, useRef } from "react";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { Link } from "wouter";
import { Sign } from "../../components/sign.tsx";
import { texts } from "../../texts/logs.ts";
import { maxEntries } from "./log-buffer.ts";
import { type LogQuery, type LogState, notRecorded } from "./log-feed.ts";
import type { LogLine } from "./log-line.ts";

const estimatedPx = 33;

/** Loads earlier entries when at most this many are left below the visible ones. */
const fewLeft = 20;

export function LogList({
  lines,
  open,
  onToggle,
  state: { earlier, isLoading, error },
  onEnd,
  query,
}: {
  readonly lines: readonly LogLine[];
  readonly open: ReadonlySet<string>;
  readonly onToggle: (key: string) => void;
  readonly state: LogState;
  readonly onEnd: () => void;
  readonly query: LogQuery;
}): ReactNode {
  const list = useRef<HTMLOListElement>(null);
  const virtualizer = useWindowVirtualizer({
    count: lines.length,
    estimateSize: () => estimatedPx,
    overscan: 20,
    scrollMargin: list.current?.offsetTop ?? 0,
    getItemKey: (index) => lines[index]?.key ?? index,
  });
  const newestDay = dayOf(lines[0]);
  const items = virtualizer.getVirtualItems();
  const isNearEnd = (items.at(-1)?.index ?? 0) >= lines.length - fewLeft;
  useEffect(() => {
    if (isNearEnd && earlier === "some" && !isLoading && error === undefined) {
      onEnd();
    }
  }, [isNearEnd, earlier, isLoading, error, onEnd]);
  return (
    <>
      <ol
        ref={list}
        className="logs-list"
        aria-label="Entries, newest first"
        style={{ height: `${virtualizer.getTotalSize()}px` }}
      >
        {items.map(({ key, index, start }) => {
          const line = lines[index];
          return line === undefined ? null : (
            <li
              key={key}
              ref={virtualizer.measureElement}
              data-index={index}
              aria-posinset={index + 1}
              aria-setsize={lines.length}
              style={{ transform: `translateY(${start - virtualizer.options.scrollMargin}px)` }}
            >
              <Line line={line} hasDate={dayOf(line) !== newestDay} isOpen={open.has(line.key)} onToggle={onToggle} />
            </li>
          );
        })}
      </ol>
      <p className="muted">{endOf(lines.length, earlier, isLoading)}</p>
      {query.kinds.some((kind) => notRecorded.has(kind)) ? (
        <p className="muted">
          Debug messages and node statuses are not recorded: only those since this page was opened are here.
        </p>
      ) : null}
    </>
  );
}

function endOf(count: number, earlier: LogState["earlier"], isLoading: boolean): string {
  if (isLoading) {
    return "Loading earlier entries …";
  }
  if (earlier === "full") {
    return texts.full(maxEntries.toLocaleString("en"));
  }
  return count === 0 ? "There are no such entries." : earlier === "none" ? "There are no earlier entries." : "";
}

function dayOf(line: LogLine | undefined): string {
  return line === undefined ? "" : new Date(line.atMs).toDateString();
}

const clock = new Intl.DateTimeFormat("en", { hourCycle: "h23", timeStyle: "medium" });
const calendar = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });

/** Longer messages are cut until the entry is opened. */
const longMessageChars = 160;

function Line({
  line: { key, atMs, word, tone, node, nodePath, tab, message, details, rev, runtime },
  hasDate,
  isOpen,
  onToggle,
}: {
  readonly line: LogLine;
  readonly hasDate: boolean;
  readonly isOpen: boolean;
  readonly onToggle: (key: string) => void;
}): ReactNode {
  const time = new Date(atMs);
  const canOpen = details !== "" || message.length > longMessageChars;
  return (
    <div className="logs-line" data-open={isOpen}>
      <time dateTime={time.toISOString()} title={time.toISOString()}>
        {hasDate ? `${calendar.format(time)} ` : null}
        {clock.format(time)}
      </time>
      <span className="logs-sign">
        <Sign tone={tone}>{word}</Sign>
      </span>
      <span className="logs-source">
        {nodePath === "" ? null : <Link href={nodePath}>{node}</Link>}
        {tab === "" ? null : <span className="muted"> {tab}</span>}
        {rev === "" ? null : <Link href={`/history/${rev}`}>{texts.revision(rev.slice(0, 8))}</Link>}
        {runtime === "" ? null : <span className="muted"> {texts.on(runtime)}</span>}
      </span>
      <span className="logs-message">{message}</span>
      {canOpen ? (
        <button type="button" className="plain" aria-expanded={isOpen} onClick={() => onToggle(key)}>
          <span className="visually-hidden">Show all of it</span>
        </button>
      ) : null}
      {isOpen && details !== "" ? <pre>{details}</pre> : null}
    </div>
  );
}
